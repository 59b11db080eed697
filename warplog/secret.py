"""Finds what gives access: tokens, keys, passwords, connection strings, whole PEM bodies.

The rule kept here: a kept library (Kingfisher's rules, offline) knows the kinds of keys; added is what it
leaves alone because it looks for leaks and we look for traces: pairs, headers, wrapped and random values.
Doubt removes. Hashes in hexadecimal, as digests and commits are, are no secrets unless a name says so.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from warplog.assignment import assigned
from warplog.fault import Fault
from warplog.randomness import random_runs

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

_GAP = r"\n[ \t>|]*"


class Span(NamedTuple):
    """Where something stands in a text that must not stay there, and the kind that it is of."""

    start: int
    end: int
    kind: str


def _run(characters: str, least: int) -> str:
    """Return a pattern of at least that many characters in a row, which a line break may part.

    What follows on the next line belongs to it only where it is needed, alone before an end, or no word.
    """
    return (
        rf"{characters}(?:(?:{_GAP})?{characters}){{{least - 1}}}{characters}*"
        rf"(?:{_GAP}(?:{characters}+(?=[ \t]*(?:\n|\Z)|[\"'`,;)}}\]\\])"
        rf"|(?={characters}*[0-9])(?={characters}*[A-Za-z]){characters}{{4,}}))*"
    )


_WORD, _DASHED = r"[A-Za-z0-9]", r"[A-Za-z0-9_-]"
_STARTS = r"(?<![A-Za-z0-9_])"
_PATTERNS = tuple(
    (kind, re.compile(pattern, flags))
    for kind, pattern, flags in (
        (
            "private key",
            (
                r"-----\s*BEGIN[A-Z0-9\s]+(?:-\s?){5}"
                r"(?:(?:(?!-----\s*BEGIN)[\s\S])*?-----\s*END[A-Z0-9\s]+(?:-\s?){4}-|[\sA-Za-z0-9+/=]*)"
            ),
            0,
        ),
        ("github token", _STARTS + rf"gh[a-z]_{_run(_WORD, 30)}", 0),
        ("github token", _STARTS + rf"github_pat_{_run(r'[A-Za-z0-9_]', 36)}", 0),
        ("hugging face token", _STARTS + rf"(?:hf|api_org)_{_run(_WORD, 30)}", 0),
        ("aws key", _STARTS + rf"A(?:KIA|SIA|ROA|IDA|GPA|BIA|CCA){_run('[A-Z0-9]', 16)}", 0),
        ("model provider key", rf"(?<![A-Za-z0-9])sk-(?={_DASHED}*[0-9]){_run(_DASHED, 20)}", 0),
        (
            "model provider key",
            _STARTS + rf"(?:gsk_|xai-|nvapi-|r8_|pplx-|AIza){_run(_DASHED, 20)}",
            0,
        ),
        ("slack token", _STARTS + rf"(?:xox[a-z]-|xapp-){_run(_DASHED, 10)}", 0),
        ("slack token", rf"hooks\.slack\.com/[a-z]+/{_run('[A-Za-z0-9_/-]', 10)}", re.IGNORECASE),
        ("bot token", r"(?<!\w)[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?!\w)", 0),
        ("bot token", r"(?<!\w)\d{8,10}:AA[\w-]{33}(?![\w-])", 0),
        ("webhook", r"discord(?:app)?\.com/api/webhooks/\d+/[\w-]+", re.IGNORECASE),
        (
            "service token",
            _STARTS + r"(?:glpat-|npm_|pypi-|dckr_pat_|dop_v1_|SG\.|ya29\.|lin_api_|hvs\.|tskey-"
            r"|AGE-SECRET-KEY-|wandb_v1_)" + _run(r"[A-Za-z0-9_.-]", 16),
            0,
        ),
        ("service token", _STARTS + rf"[srp]k_(?:live|test)_{_run(_WORD, 16)}", 0),
        ("jwt", rf"(?<![A-Za-z0-9])eyJ{_run(r'[A-Za-z0-9_.-]', 20)}", 0),
        (
            "authorization header",
            (
                r"\b(?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?"
                r"(?:(?:bearer|basic|token|digest|apikey)\s+)?"
                r"(?P<value>(?!(?:bearer|basic|token|digest|apikey)\b)[^\s\"',;(){}]{6,})"
            ),
            re.IGNORECASE,
        ),
        (
            "authorization header",
            r"\bbearer\s+(?P<value>(?=[\w.~+/-]*[0-9])[\w.~+/-]{12,}=*)",
            re.IGNORECASE,
        ),
        ("cookie", r"(?:^|[\s\"'])(?:set-)?cookie:\s*(?P<value>[^\n\"']{8,})", re.IGNORECASE),
        (
            "connection string",
            r"\b[a-z][a-z0-9+.-]{0,30}://(?P<value>[^\s/:@\"'<>]*:[^\s/\"'<>]+@[^\s/\"'<>?,;)]+)",
            re.IGNORECASE,
        ),
        (
            "connection string",
            (
                r"\b(?:postgres\w*|mysql\w*|mariadb|mongodb|rediss?|amqps?|mssql)(?:\+\w+)?://"
                r"(?P<value>[^\s:@\"'<>]*:[^\s\"'<>]+@[^\s/\"'<>?,;)]+)"
            ),
            re.IGNORECASE,
        ),
        ("connection string", r"\bhttps?://(?P<value>[^\s/@:\"'<>]{8,})@", re.IGNORECASE),
    )
)
_BY_NAME, _RANDOM = "password or key by name", "random value"
KINDS = {kind for kind, _ in _PATTERNS} | {_BY_NAME, _RANDOM}
_AWS_ID = re.compile(r"(?<![A-Za-z0-9])A(?:KIA|SIA)[A-Z0-9]{16}")
_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9/+=])(?![0-9a-f]{40})[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")


def secrets(text: str) -> Iterator[Span]:
    """Yield every secret in `text` and where it stands; spans may overlap.

    Raises Fault where the library is not installed.
    """
    for kind, pattern in _PATTERNS:
        group = 1 if pattern.groups else 0
        for match in pattern.finditer(text):
            yield Span(*match.span(group), kind)
    if _AWS_ID.search(text):
        for match in _AWS_SECRET.finditer(text):
            yield Span(*match.span(), "aws key")
    for start, end in assigned(text):
        yield Span(start, end, _BY_NAME)
    for start, end in random_runs(text):
        yield Span(start, end, _RANDOM)
    yield from _known_kinds(text)


def _known_kinds(text: str) -> Iterator[Span]:
    """Yield what the library finds, coded in Base64 too; its rule's name is the kind."""
    content = text.encode("utf-8", "replace")
    for found in scanner().scan(content):
        first, last = found.location["start_offset"], found.location["end_offset"]
        start = len(content[:first].decode("utf-8", "ignore"))
        length = len(content[first:last].decode("utf-8", "ignore"))
        yield Span(start, start + length, re.split(r"[./]", found.rule_id)[-1].replace("-", " "))


@cache
def scanner() -> "Scanner":
    """Return the library's scanner, made once: it compiles hundreds of rules."""
    try:
        from kingfisher_sdk import Scanner  # noqa: PLC0415 - only a draft needs it
    except ImportError:
        remedy = "install it: pip install 'warplog[draft]'"
        raise Fault("warplog draft", "the detector of secrets is not installed", remedy) from None
    return Scanner()
