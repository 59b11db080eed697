"""The identifiers of a text with their parts, so that a search finds each by any of them. Pure.

The rule kept here: a name is split first at its dots, then at its underscores, then where its case changes:
``_STERound`` is also STERound, STE and Round. Names and parts of one letter, numbers, and the words that
every program has are left out.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

_NAME = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
_CASE = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])|\w")
_LENGTH_AT_LEAST, _LENGTH_AT_MOST = 2, 80
_WORDS = """
and as class def elif else false for from if import in is lambda len none not or pass print range return
self true while with region endregion auto bool char const double float int long short static void
an are at be by do it its no of on so than that the then they this to was we which
"""
_EVERYWHERE = frozenset(_WORDS.split())
_KEPT = 20_000


def identifiers(texts: Iterable[str]) -> list[str]:
    """Return the distinct identifiers of `texts` in the order of their first place, each before its
    parts.
    """
    names = dict.fromkeys(name for text in texts for name in _NAME.findall(text))
    return list(dict.fromkeys(word for name in names for word in _telling(name)))


@lru_cache(maxsize=_KEPT)
def _telling(name: str) -> tuple[str, ...]:
    """Return a name and its parts as far as they say something."""
    return tuple(
        word
        for word in (name, *parts(name))
        if _LENGTH_AT_LEAST <= len(word) <= _LENGTH_AT_MOST
        and not word.isdigit()
        and word.lower() not in _EVERYWHERE
    )


def parts(name: str) -> Iterator[str]:
    """Yield what a name is made of, from its largest parts to its smallest."""
    words = name.split(".")
    if len(words) > 1:
        yield from words
    for word in words:
        pieces = [piece for piece in word.split("_") if piece]
        if "_" in word:
            yield word.strip("_")
            yield from pieces
        for piece in pieces:
            letters = _CASE.findall(piece)
            if len(letters) > 1:
                yield from letters
