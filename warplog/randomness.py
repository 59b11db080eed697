"""Tells random characters from names that people and programs gave. Pure.

The rule kept here: what a generator of keys wrote changes between small letters, capitals and digits at
every other character; names, paths and versions do so seldom. Hexadecimal is left alone: digests, commits
and checksums look like that, and only a name beside it tells a key from them.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

_RUN = re.compile(r"(?<![A-Za-z0-9+/_%-])[A-Za-z0-9+/_-]{20,}={0,2}")
_LINES = re.compile(
    r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{4,}(?:\n[ \t>|]*[A-Za-z0-9+/_-]{2,}={0,2})+"
)
_GAP = re.compile(r"\n[ \t>|]*")
_ENDS = re.compile(r"[ \t]*(?:\n|\Z)|[\"'`,;)}\]\\]")
_HEX = re.compile(r"(?:v?[0-9a-f]+|[0-9A-F]+)\Z")
_PARTS = re.compile(r"[A-Za-z0-9]+")
_WORDS = re.compile(r"[A-Z]?(?=[a-z]{0,4}[aeiouy])[a-z]{3,}|[A-Z]{8,}")
_NAMED = re.compile(r"sha\d{1,3}-|_+Z[A-Z0-9]")  # an integrity hash, a mangled symbol
_CHANGES_MIXED, _CHANGES_LETTERS, _CHANGES_PLAIN = 0.3, 0.4, 0.17
_ENTROPY, _LEAST_PLAIN, _LEAST_DIGITS = 3.2, 24, 3
_MIXED_CLASSES, _AT_MOST_WORDS = 3, 0.55
_PAIRS_LEAST = 12


def random_runs(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each run of twenty characters or more stands that no person would write, wrapped or not."""
    for match in _RUN.finditer(text):
        if is_random(match[0]):
            yield match.span()
    for match in _LINES.finditer(text):
        end = _wrapped(text, match)
        if end and is_random("".join(_GAP.split(text[match.start() : end]))):
            yield match.start(), end


def _wrapped(text: str, match: re.Match[str]) -> int:
    """Return the end of the lines in `match` that can be one value; 0 where only the first can."""
    end = 0
    place = match.start()
    for index, piece in enumerate(_GAP.split(match[0])):
        start = text.index(piece, place)
        place = start + len(piece)
        whole = bool(_ENDS.match(text, place))
        if _HEX.match(piece) or not (whole or index == 0 or changes(piece) >= _CHANGES_PLAIN):
            break
        end = place if index else 0
    return end


def is_random(run: str) -> bool:
    """Return whether `run` was drawn from letters and digits, rather than named."""
    parts = [part for part in _PARTS.findall(run) if not _HEX.match(part)]
    if not parts or _NAMED.match(run):
        return False
    characters = "".join(parts)
    pairs = sum(len(part) - 1 for part in parts)
    if pairs < _PAIRS_LEAST or entropy(characters) < _ENTROPY:
        return False
    worded = sum(len(word) for word in _WORDS.findall(run)) / len(characters)
    changes = sum(_changes(part) for part in parts) / pairs
    if len(set(map(_kind, characters))) == _MIXED_CLASSES:
        return changes >= _CHANGES_MIXED and worded <= _AT_MOST_WORDS
    digits = sum(character.isdigit() for character in characters)
    longest = max(map(len, parts))
    if not digits:
        enough = longest >= _LEAST_PLAIN and changes >= _CHANGES_LETTERS
        return enough and worded <= _AT_MOST_WORDS
    return digits >= _LEAST_DIGITS and longest >= _LEAST_PLAIN and changes >= _CHANGES_PLAIN


def entropy(run: str) -> float:
    """Return Shannon's entropy of the characters of `run`, in bits a character."""
    counts = Counter(run).values()
    return -sum(count / len(run) * math.log2(count / len(run)) for count in counts)


def changes(run: str) -> float:
    """Return how often two neighbours in `run` are of other kinds, from 0 to 1."""
    return _changes(run) / max(1, len(run) - 1)


def _changes(part: str) -> int:
    return sum(_kind(one) != _kind(other) for one, other in pairwise(part))


def _kind(character: str) -> str:
    if character.isdigit():
        return "digit"
    return "small" if character.islower() else "capital"
