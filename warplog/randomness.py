"""Tells random characters from names that people and programs gave. Pure.

The rule kept here: what a generator of keys wrote changes between small letters, capitals and digits at
every other character; names, paths and versions do so seldom. Hexadecimal is left alone: digests, commits
and checksums look like that, and only a name beside it tells a key from them.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator

_RUN = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{20,}={0,2}")
_WRAPPED = re.compile(
    r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{4,}"
    r"(?:\n[ \t>|]*[A-Za-z0-9+/_-]{2,}={0,2}(?=[ \t]*(?:\n|\Z)|[\"'`,;)}\]\\]))+"
)
_HEX = re.compile(r"(?:[0-9a-f]+|[0-9A-F]+)\Z")
_PARTS = re.compile(r"[A-Za-z0-9]+")
_WORDS = re.compile(r"[A-Z]?[a-z]{4,}|[A-Z]{6,}")
_NAMED = re.compile(r"sha\d{1,3}-|_+Z[A-Z0-9]")  # an integrity hash, a mangled symbol
_CHANGES_MIXED, _CHANGES_PLAIN = 0.36, 0.24
_ENTROPY, _LEAST_PLAIN, _LEAST_DIGITS = 3.4, 24, 4
_MIXED_CLASSES, _AT_MOST_WORDS = 3, 0.34
_PAIRS_LEAST = 12


def random_runs(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each run of at least twenty characters stands that no person would write, wrapped or not."""
    for match in _RUN.finditer(text):
        if is_random(match[0]):
            yield match.span()
    for match in _WRAPPED.finditer(text):
        pieces = re.split(r"\n[ \t>|]*", match[0])
        if not any(map(_HEX.match, pieces)) and is_random("".join(pieces)):
            yield match.span()


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
    enough = digits >= _LEAST_DIGITS and longest >= _LEAST_PLAIN
    return enough and changes >= _CHANGES_PLAIN and worded <= _AT_MOST_WORDS


def entropy(run: str) -> float:
    """Return Shannon's entropy of the characters of `run`, in bits a character."""
    counts = Counter(run).values()
    return -sum(count / len(run) * math.log2(count / len(run)) for count in counts)


def changes(run: str) -> float:
    """Return how often two neighbours in `run` are of other kinds, from 0 to 1."""
    return _changes(run) / max(1, len(run) - 1)


def _changes(part: str) -> int:
    return sum(_kind(one) != _kind(other) for one, other in zip(part, part[1:], strict=False))


def _kind(character: str) -> str:
    if character.isdigit():
        return "digit"
    return "small" if character.islower() else "capital"
