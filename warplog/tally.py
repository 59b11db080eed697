"""Sums verdicts up: one badge or one glyph for all the claims of an entry on a device. Pure.

The rule kept here: a sum never hides what it sums. Where the verdicts differ it says mixed and how many
there are of each.
"""

import re
from collections import Counter

from warplog.claim import Verdict
from warplog.journal import Column, overall
from warplog.output import plain_words
from warplog.verdicts import ICONS, badge

MIXED = "mixed"
MIXED_ICON = "\u00b1"
_MAKERS = {"nvidia", "geforce", "quadro", "tesla", "amd", "radeon", "instinct", "intel"}
_NAME_AT_MOST = 48
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")
_CODE = re.compile(r"[a-z]*[0-9]\w*|rtx|gtx|nvl|pcie|\b[a-z](?=[a-z]+)")


def plural(count: int, one: str, many: str = "") -> str:
    """Write a count with its noun: ``1 entry``, ``2 entries``; thousands stand apart."""
    number = f"{count:,}".replace(",", "\u202f") if abs(count) >= 10_000 else str(count)  # noqa: PLR2004
    return f"{number} {one if count == 1 else many or one + 's'}"


def in_words(counts: Counter[Verdict]) -> str:
    """Write how many claims have each verdict: ``28 supported, 3 refuted``."""
    return ", ".join(f"{counts[each]} {each.value}" for each in Verdict if counts[each])


def summary(column: Column) -> Verdict | str | None:
    """Return the verdict that all claims share on a device, `MIXED`, or None where there are none."""
    verdicts = [each.verdict for each in column.judgements.values()]
    return (overall(verdicts) or MIXED) if verdicts else None


def sum_badge(column: Column) -> str:
    """Return one badge for all claims on a device, as HTML; mixed where they differ."""
    found = summary(column)
    if found is None:
        return '<span class="wl-badge wl-untested">no claims</span>'
    if isinstance(found, Verdict):
        return badge(found)
    return (
        f'<span class="wl-badge wl-{MIXED}"><span class="wl-icon" aria-hidden="true">{MIXED_ICON}'
        f"</span> {MIXED}</span>"
    )


def glyph(verdict: Verdict) -> str:
    """Return a verdict as one round glyph that is read out as its word."""
    return _dot(verdict.value, ICONS[verdict], verdict.value)


def sum_glyph(column: Column) -> str:
    """Return one glyph for all claims on a device."""
    found = summary(column)
    if isinstance(found, Verdict):
        return glyph(found)
    if found is None:
        return _dot("untested", "\u2013", "no claims")
    return _dot(MIXED, MIXED_ICON, MIXED)


def _dot(kind: str, icon: str, said: str) -> str:
    return f'<span class="wl-dot wl-{kind}" role="img" aria-label="{said}">{icon}</span>'


def gpu_words(name: str) -> str:
    """Return a GPU's short name as escaped HTML, cut where no GPU's name is that long."""
    return plain_words(short_name(name), _NAME_AT_MOST)


def short_name(name: str) -> str:
    """Return a GPU's name without its maker and line: ``NVIDIA GeForce RTX 5090`` is ``RTX 5090``, and so is
    the device ``nvidia-geforce-rtx-5090``, which stands where no record has the name.
    """
    words = name.split()
    if len(words) == 1 and _SLUG.fullmatch(name) and name.partition("-")[0] in _MAKERS:
        words = [_CODE.sub(lambda code: code[0].upper(), word) for word in name.split("-")]
    while len(words) > 1 and words[0].lower() in _MAKERS:
        words = words[1:]
    return " ".join(words) or name
