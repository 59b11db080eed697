"""Placeholders: opaque words that pass through Markdown and become HTML of ours afterwards. Pure.

The rule kept here: only an author's prose passes through Markdown; a token carries a digest of the text
around it, so that no text can hold one that it was not given.
"""

import hashlib
import re

from msgspec import Struct

TOKEN = re.compile(r"wl[0-9a-f]{16}[bi][0-9]+e")
_SHOWN = re.compile(r"<p>\s*(wl[0-9a-f]{16}b[0-9]+e)\s*</p>|(wl[0-9a-f]{16}[bi][0-9]+e)")


class Page(Struct, frozen=True):
    """Markdown with tokens, and the HTML that each token stands for.

    `numbers` are the tokens of measured numbers with the places of their links.
    """

    markdown: str
    html: dict[str, str]
    numbers: dict[str, str] = {}


class Tokens:
    """Hands out tokens that no text of the entry can hold: they carry a digest of it."""

    def __init__(self, text: str) -> None:
        self._salt = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.html: dict[str, str] = {}

    def block(self, html: str) -> str:
        """Return a paragraph of Markdown that becomes `html`."""
        return f"\n\n{self._keep('b', html)}\n\n"

    def inline(self, html: str) -> str:
        """Return a word of Markdown that becomes `html`."""
        return self._keep("i", html)

    def _keep(self, kind: str, html: str) -> str:
        token = f"wl{self._salt}{kind}{len(self.html)}e"
        self.html[token] = html
        return token


def substitute(html: str, tokens: dict[str, str]) -> str:
    """Return rendered Markdown with each token replaced by what it stands for."""
    return _SHOWN.sub(lambda match: tokens.get(match[1] or match[2], match[0]), html)
