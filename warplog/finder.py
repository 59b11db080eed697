"""What the search knows of an entry: a reduced copy of its page. Pure.

The rule kept here: a reader searches for words, names in code, GPUs and claims, and is led to the section
that has them; tables of numbers, environments and listings as such are left out, since they would
make the index large and every page alike.
"""

import re
from collections.abc import Iterator
from html import escape, unescape

from warplog.front import SECTIONS
from warplog.journal import Outcome
from warplog.lexicon import identifiers
from warplog.outline import plain
from warplog.placeholder import TOKEN, Page

BRIEF_FROM = 300
WORDS_OF_A_SECTION = 40
NAMES_IN_BRIEF = 300
_WORDS_AT_MOST = 20_000
_WORD_AT_MOST = 100
_NAMES_AT_MOST = 1500
_HEADING = re.compile(r'<h([1-6])[^>]*? id="([^"]*)"[^>]*>(.*?)</h\1>', re.DOTALL)
_PERMALINK = re.compile(r'<a class="headerlink".*?</a>', re.DOTALL)
_CODE = re.compile(r"<(pre|code)\b[^>]*>(.*?)</\1>", re.DOTALL)
_LEFT_OUT = re.compile(r"<(pre|table|svg|script|style)\b.*?</\1>", re.DOTALL)
_LISTING = '<figure class="wl-listing"'
_BREAK = re.compile(r"</?(?:p|li|dd|dt|div|blockquote|h[1-6]|br)\b[^>]*>")
_TAG = re.compile(r"<[^>]*>")
_NUMBER = re.compile(r"wl[0-9a-f]{16}i[0-9]+e")


def reduced(html: str, page: Page, outcome: Outcome, *, brief: bool) -> str:
    """Return what is to be searched as HTML with the headings of the page.

    `html` is the author's prose as rendered, still with the tokens of `page`; `brief` keeps 40 words of
    prose a section and 300 names, for a journal of more than 300 entries.
    """
    title = escape(_short(plain(outcome.entry.title)))
    found = [f'<h1 id="title">{title}</h1>', _opening(outcome)]
    seen: set[str] = set()
    for anchor, heading, text in _sections(html):
        told = list(_paragraphs(_prose(text, page), brief=brief))
        if anchor == "claims":
            told += [_paragraph(each.says) for each in outcome.entry.claims.values()]
        names = [name for name in identifiers(_codes(text, page)) if name not in seen]
        names = names[: (NAMES_IN_BRIEF if brief else _NAMES_AT_MOST) - len(seen)]
        seen.update(names)
        if names:
            told.append(f"<p>{' '.join(names)}</p>")
        if anchor is not None and (told or anchor not in SECTIONS):
            found.append(f'<h2 id="{anchor}">{_short(heading)}</h2>')
        found += told
    return "".join(found)


def _opening(outcome: Outcome) -> str:
    """Return the summary, the GPUs by their names, and the artifact."""
    entry = outcome.entry
    names = ", ".join([*(column.name for column in outcome.columns), entry.artifact])
    return _paragraph(entry.summary) + _paragraph(names)


def _paragraph(text: str) -> str:
    return f"<p>{escape(_short(plain(text)))}</p>"


def _short(text: str) -> str:
    """Return a text without the ends of words that no reader types, and no index should hold."""
    return " ".join(word[:_WORD_AT_MOST] for word in text.split())


def _sections(html: str) -> Iterator[tuple[str | None, str, str]]:
    """Yield the anchor, the title and the text of each section; what stands first has no anchor."""
    pieces = _HEADING.split(html)
    yield None, "", pieces[0]
    for _, anchor, title, text in zip(*(iter(pieces[1:]),) * 4, strict=True):
        yield anchor, _TAG.sub("", _PERMALINK.sub("", title)).strip(), text


def _prose(text: str, page: Page) -> str:
    """Return the prose of a section with its measured numbers, and without what we put between."""
    kept = _LEFT_OUT.sub(" ", text)
    numbered = _NUMBER.sub(lambda match: _TAG.sub("", page.html.get(match[0], "")), kept)
    return TOKEN.sub(" ", numbered)


def _paragraphs(html: str, *, brief: bool) -> Iterator[str]:
    """Yield the paragraphs of a section without markup; all of them, or so many words in all."""
    left = WORDS_OF_A_SECTION if brief else _WORDS_AT_MOST
    for piece in _BREAK.split(html):
        words = _short(_TAG.sub("", piece)).split(maxsplit=left)[:left] if left else []
        left -= len(words)
        if words:
            yield f"<p>{' '.join(words)}</p>"


def _codes(text: str, page: Page) -> Iterator[str]:
    """Yield the code of a section: what stands in backticks and fences, and its listings."""
    for match in _CODE.finditer(text):
        yield _bare(match[2])
    for token in TOKEN.findall(text):
        html = page.html.get(token, "")
        if html.startswith(_LISTING):
            yield from (_bare(match[2]) for match in _CODE.finditer(html))


def _bare(html: str) -> str:
    return unescape(_TAG.sub("", html))
