"""A page whose whole content is HTML of ours: one token, so that Markdown never sees it. Pure.

The rule kept here: what a theme's template shows of a page (its title, its description) can close no tag
and open none, whatever a record called its GPU.
"""

from html import escape

import yaml

from warplog.output import plain_words
from warplog.placeholder import Page, Tokens

_BRACKETS = str.maketrans("<>", "\u2039\u203a")
_WIDE = 1_000_000
_TITLE_AT_MOST = 120


def sheet(title: str, description: str, html: str, *, searched: bool = False, **more: str) -> Page:
    """Return a page without navigation and contents, which the search leaves out unless it is `searched`.

    `more` is for the theme: `tab` is the page of the navigation that it belongs to, where it is not one
    itself, `script` the address of a program that it loads.
    """
    meta = {
        "title": _inert(title),
        "description": _inert(description),
        "hide": ["navigation", "toc"],
        **({} if searched else {"search": {"exclude": True}}),
        **more,
    }
    front = yaml.safe_dump(meta, sort_keys=False, width=_WIDE)
    tokens = Tokens(html)
    return Page(f"---\n{front}---\n{tokens.block(html)}", tokens.html)


def _inert(words: str) -> str:
    """Return text without brackets and control characters, escaped, and not longer than a title is.

    Templates that strip tags also undo an escape, so brackets must not come back as brackets.
    """
    plain = "".join(each if each.isprintable() else " " for each in words.translate(_BRACKETS))
    cut = plain if len(plain) <= _TITLE_AT_MOST * 2 else plain[: _TITLE_AT_MOST * 2] + "\u2026"
    return escape(cut)


def section(anchor: str, title: str, html: str, level: int = 2) -> str:
    """Return a heading with a link to itself, and what stands below it."""
    said = plain_words(title)
    return (
        f'<h{level} id="{escape(anchor)}">{said}<a class="headerlink" href="#{escape(anchor)}" '
        f'title="Permanent link">&para;</a></h{level}>{html}'
    )
