"""Makes text that a program wrote safe and legible on a page. Pure.

The rule kept here: what a terminal would have shown is shown, nothing in it is obeyed, and what is left
out is said to be left out.
"""

import re
from html import escape

LINE_AT_MOST = 2_000
SENTENCE_AT_MOST = 800
WORDS_AT_MOST = 240
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor moves
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|(?=\n)|\Z)"  # strings to the terminal: titles, links
    r"|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]"
)
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain_output(text: str) -> str:
    """Return program output as escaped HTML for a `pre`; see `plain_text`."""
    return escape(plain_text(text))


def plain_words(text: str, at_most: int = WORDS_AT_MOST) -> str:
    """Return words from a record or an author as escaped HTML on one line, cut with a note after
    `at_most` characters: a name, a unit, a sentence.
    """
    return escape(plain_text(" ".join(text.split("\n")), at_most))


def plain_text(text: str, at_most: int = LINE_AT_MOST) -> str:
    """Return program output as a person reads it: escape codes gone, carriage returns and backspaces
    done, other control characters made visible, lines longer than `at_most` cut with a note.
    """
    shown = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    lines = [_line(line, at_most) for line in shown.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)


def visible(text: str) -> str:
    """Return `text` with a sign for each character that is not seen or turns others around."""
    return _UNSEEN.sub(_sign, text)


def _line(line: str, at_most: int) -> str:
    """Return one line as a terminal would have left it."""
    left = ""
    for part in line.split("\r"):
        part = _without_backspaces(part)  # noqa: PLW2901 - the same part, cleaned
        left = part + left[len(part) :]
    left = visible(left)
    if len(left) <= at_most:
        return left
    kept_at_end = at_most // 6
    start = left[: at_most - kept_at_end]
    missing = len(left) - at_most
    return f"{start} [... {missing} characters left out ...] {left[-kept_at_end:]}"


def _without_backspaces(text: str) -> str:
    if "\b" not in text:
        return text
    kept: list[str] = []
    for character in text:
        if character != "\b":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)


def _sign(match: re.Match[str]) -> str:
    """Return Unicode's picture of a control character, or the replacement character."""
    code = ord(match[0])
    if code < 0x20:  # noqa: PLR2004 - the C0 block
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"  # noqa: PLR2004 - DEL
