"""Makes text that a program wrote safe and legible on a page. Pure.

The rule kept here: what a terminal would have shown is shown, nothing in it is obeyed, and what is left
out is said to be left out.
"""

import re
from html import escape

LINE_AT_MOST = 2_000
_KEPT_AT_END = 300
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor moves
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|(?=\n)|\Z)"  # strings to the terminal: titles, links
    r"|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]"
)
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain_output(text: str) -> str:
    """Return program output as escaped HTML for a `pre`; see `plain_text`."""
    return escape(plain_text(text))


def plain_text(text: str) -> str:
    """Return program output as a person reads it: escape codes gone, carriage returns and backspaces
    done, other control characters made visible, overlong lines cut with a note.
    """
    shown = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    lines = [_line(line) for line in shown.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)


def _line(line: str) -> str:
    """Return one line as a terminal would have left it."""
    left = ""
    for part in line.split("\r"):
        part = _without_backspaces(part)  # noqa: PLW2901 - the same part, cleaned
        left = part + left[len(part) :]
    left = _UNSEEN.sub(_visible, left)
    if len(left) <= LINE_AT_MOST:
        return left
    start = left[: LINE_AT_MOST - _KEPT_AT_END]
    missing = len(left) - LINE_AT_MOST
    return f"{start} [... {missing} characters left out ...] {left[-_KEPT_AT_END:]}"


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


def _visible(match: re.Match[str]) -> str:
    """Return Unicode's picture of a control character, or the replacement character."""
    code = ord(match[0])
    if code < 0x20:  # noqa: PLR2004 - the C0 block
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"  # noqa: PLR2004 - DEL
