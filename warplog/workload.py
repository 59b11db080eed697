"""Workloads as an entry spells them: ``batch=31 kind="two words"``. Pure.

The rule kept here: every workload that a record can hold has a spelling, and what is spelled the same
is the same.
"""

import math
import re

from warplog.record import Scalar, Workload
from warplog.sound import usable

_SIZE = re.compile(
    r"\s*(?P<name>[^\s=\"]+)=(?:\"(?P<quoted>(?:[^\"\\]|\\.)*)\"|(?P<plain>[^\s\"]+))(?=\s|\Z)",
    re.DOTALL,
)
_WHOLE = re.compile(r"[-+]?[0-9]+\Z")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z")
_COMMA = re.compile(r",(?:\Z|[^\s=\",]+=)")
_NEEDS_QUOTES = re.compile(rf"[\s\"]|\A\Z|{_COMMA.pattern}")


def spell(workload: Workload) -> str:
    """Write a workload as an entry does: ``batch=31 kind="two words"``; `parse_workload` reads it."""
    return " ".join(f"{name}={_quoted(str(value))}" for name, value in workload.items())


def _quoted(text: str) -> str:
    if not _NEEDS_QUOTES.search(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def parse_workload(text: str) -> Workload:
    """Read ``batch=31 kind="two words"``; raise ValueError with what is wrong.

    Inside double quotes, a backslash stands before a quote or a backslash.
    """
    sizes: Workload = {}
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _SIZE.match(text, position)
        if found is None:
            word = text[position:].split(maxsplit=1)[0]
            message = f'{word[:80]!r} is not name=value (quote spaces: name="two words")'
            raise ValueError(message)
        name, quoted = found["name"], found["quoted"]
        if name in sizes:
            message = f"{name!r} is given twice"
            raise ValueError(message)
        if quoted is None and _COMMA.search(found["plain"]):
            message = f"{found[0].strip()[:80]!r} holds a comma; put spaces between sizes, no comma"
            raise ValueError(message)
        unescaped = None if quoted is None else re.sub(r"(?s)\\(.)", r"\1", quoted)
        sizes[name] = plain(found["plain"]) if unescaped is None else unescaped
        position = found.end()
    return sizes


def plain(value: Scalar) -> Scalar:
    """Return a size as an entry spells it: a text that is a plain decimal number is that number."""
    if not isinstance(value, str):
        return value
    try:
        whole = _WHOLE.match(value)
        number = int(value) if whole else float(value) if _DECIMAL.match(value) else math.inf
    except ValueError:  # more digits than Python reads
        return value
    return number if usable(number) else value
