"""Shows source code as it is in the artifact, with its real line numbers.

The rule kept here: the code is read from the file that the record's digest covers, never copied into an
entry; the numbers are attributes, so that copying takes the code alone.
"""

from functools import cache, lru_cache
from pathlib import PurePath

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name

from warplog.block import Excerpt
from warplog.output import plain_words, visible

_LEXERS = {".py": "python", ".cu": "cuda", ".cuh": "cuda", ".cpp": "cpp", ".h": "cpp"}
_SCROLLS_FROM = 60
_FORMATTER = HtmlFormatter(nowrap=True)


def listing(excerpt: Excerpt, anchor: str, link: str) -> str:
    """Return an excerpt as an HTML figure; more than 60 lines scroll in their own box.

    Line 12 has the id ``<anchor>-L12``; `link` is HTML that leads to the whole file.
    """
    lines = _highlighted(visible(excerpt.text), PurePath(excerpt.file).suffix)
    numbered = "".join(
        f'<span class="wl-line" id="{anchor}-L{number}"><a href="#{anchor}-L{number}" tabindex="-1" '
        f'aria-hidden="true" data-line="{number}"></a>{line}\n</span>'
        for number, line in enumerate(lines, start=excerpt.first)
    )
    region = f"<span>region {plain_words(excerpt.region)}</span>" if excerpt.region else ""
    last = excerpt.first + len(lines) - 1
    tall = " wl-tall" if len(lines) > _SCROLLS_FROM else ""
    return (
        '<figure class="wl-listing"><figcaption><span class="wl-file">'
        f"{plain_words(excerpt.file)}</span>{region}<span>lines {excerpt.first}&ndash;{last}</span>"
        f'<span class="wl-view">{link}</span></figcaption><div class="highlight wl-code{tall}">'
        f'<pre tabindex="0"><code>{numbered}</code></pre></div></figure>'
    )


@cache
def _lexer(language: str) -> Lexer:
    return get_lexer_by_name(language, stripnl=False)


@lru_cache(maxsize=64)
def _highlighted(code: str, suffix: str) -> tuple[str, ...]:
    """Return the lines of `code` as HTML with Pygments' short classes."""
    html = highlight(code, _lexer(_LEXERS.get(suffix, "text")), _FORMATTER)
    return tuple(html.removesuffix("\n").split("\n"))
