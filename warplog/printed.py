"""Finds the numbers with units that a command printed: what a draft may claim, once it is measured here.

The rule kept here: a number is shown as it was printed, with its line, and beside it what a record would
call it: metric and SI unit. It is never written into prose. Pure.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from warplog.markup import measured_numbers

_PARTS = re.compile(r"([\d.,\u202f]+)[ \u00a0\u202f]?(.*)")
_NAMED = re.compile(
    r"(?P<name>[A-Za-z][\w./]*_(?P<unit>ns|us|ms|sec|seconds|gbps|tbps|gflops|tflops|pct|percent|cycles))"
    r"[\"']?\s*[:=]\s*(?P<number>\d[\d.]*(?:[eE][-+]?\d+)?)"
)
_SECONDS = {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0}
_SECONDS |= {"nanosecond": 1e-9, "microsecond": 1e-6, "millisecond": 1e-3}
_SECONDS |= {"second": 1.0, "sec": 1.0}
_LARGE = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"k": 2.0**10, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50}
_BYTES = re.compile(r"(?P<prefix>[kKMGTP]?)(?P<binary>i?)B(?P<rate>/s)?\Z")
_WORK = re.compile(r"(?P<prefix>[kMGTP]?)(?:FL)?OP(?:S/s|/s|S)\Z")
_OTHERS = {
    "×": ("speedup", 1.0, ""),
    "x": ("speedup", 1.0, ""),
    "times": ("speedup", 1.0, ""),
    "%": ("fraction", 0.01, ""),
    "percent": ("fraction", 0.01, ""),
    "pct": ("fraction", 0.01, ""),
    "gbps": ("bandwidth", 1e9, "B/s"),
    "tbps": ("bandwidth", 1e12, "B/s"),
    "gflops": ("rate", 1e9, "op/s"),
    "tflops": ("rate", 1e12, "op/s"),
}
LINE_AT_MOST = 160


class Number(Struct, frozen=True):
    """A number as it was `printed` in `line`, and what a record would hold: ``latency 1.24e-05 s``."""

    printed: str
    meant: str
    line: str


def numbers(output: str) -> Iterator[Number]:
    """Yield each number with a unit in what a command printed, in order, once a line and number."""
    told: set[tuple[str, str]] = set()
    for line in output.split("\n"):
        words = " ".join(line.split())[:LINE_AT_MOST]
        for printed, value, unit in _in_line(words):
            if (printed, words) not in told:
                told.add((printed, words))
                yield Number(printed, _meant(value, unit), words)


def _in_line(words: str) -> Iterator[tuple[str, float, str]]:
    for _, printed in measured_numbers(words):
        parts = _PARTS.fullmatch(printed)
        value = _value(parts[1]) if parts else None
        if parts and value is not None:
            yield printed, value, parts[2].strip()
    for match in _NAMED.finditer(words):
        value = _value(match["number"])
        if value is not None:
            yield f"{match['name']}={match['number']}", value, match["unit"]


def _value(digits: str) -> float | None:
    """Return the number that digits with thousands apart stand for; None where they stand for none."""
    plain = digits.replace("\u202f", "")
    plain = re.sub(r",(?=\d{3}(?:\D|\Z))", "", plain).rstrip(".,")
    try:
        return float(plain)
    except ValueError:
        return None


def _meant(value: float, unit: str) -> str:
    """Return the metric and the SI value of a number, or the number and its unit where it has no metric."""
    metric, scale, base = _scale(unit)
    return f"{metric} {value * scale:.6g} {base}".strip() if metric else f"{value:.6g} {unit}"


def _scale(unit: str) -> tuple[str, float, str]:
    singular = unit.removesuffix("s") if len(unit) > 2 else unit  # noqa: PLR2004 - `ms` is no plural
    seconds = _SECONDS.get(unit, _SECONDS.get(singular))
    if seconds is not None:
        return "latency", seconds, "s"
    if data := _BYTES.match(unit):
        table = _BINARY if data["binary"] else _LARGE
        size = table.get(data["prefix"], 1.0)
        return ("bandwidth", size, "B/s") if data["rate"] else ("bytes", size, "B")
    if work := _WORK.match(unit):
        return "rate", _LARGE[work["prefix"]], "op/s"
    return _OTHERS.get(unit, ("", 1.0, ""))
