"""Finds passwords and keys by the name that they are given. Pure.

The rule kept here: a value beside a name like `password` or `api_key` goes, unless it is a name itself,
a type, a placeholder or a part of an expression, as code has it.
"""

import re
from collections.abc import Iterator

from warplog.randomness import changes

_NAMES = (
    r"pass(?:word|wd|phrase|code)|pwd|secret|token|credential"
    r"|(?:api|access|auth|account|private|secret|encryption|signing|license|shared[_-]?access)[_-]?key"
)
_ASSIGNED = re.compile(
    rf"(?P<name>{_NAMES})(?P<closed>\\*[\"'])?"
    r"(?P<sign>[ \t]{0,4}(?::=|=>|[:=])[ \t]{0,4})"
    r"(?:(?P<quote>\\*[\"'`])(?P<inside>[^\"'`\n\\]{4,})|(?P<bare>[^\s\"'`,;(){}\[\]<>|\\]{4,}))",
    re.IGNORECASE,
)
_SAID = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        (
            r"--(?:[\w-]{0,60}-)?(?:password|passwd|pass|token|api-key|secret|key)[ =]+[\"']?"
            r"(?P<value>[^\s\"'$<({-][^\s\"']{5,})"
        ),
        r"\bcurl\b[^\n]{0,400}?\s(?:-u|--user)[ =]*[\"']?[^\s:\"'$]+:(?P<value>[^\s\"'$]{4,})",
        r"\bsshpass\s+-p[ =]*[\"']?(?P<value>[^\s\"'$]{4,})",
        r"\bmysql\w*\b[^\n]{0,400}?\s-p(?P<value>[^\s\"'$-][^\s\"'$]{3,})",
        r"\bwandb\s+login\s+(?:-\S+\s+)*(?P<value>[0-9a-f]{40})\b",
        r"\b(?:docker|podman|helm)\b[^\n]{0,99}\slogin\b[^\n]{0,99}?\s-p[ =]*(?P<value>[^\s\"'$-]\S{3,})",
        r"\bredis-cli\b[^\n]{0,99}?\s-a\s+[\"']?(?P<value>[^\s\"'$-][^\s\"']{3,})",
        r"\bkey-(?P<value>[0-9a-f]{32})\b",
        r"\blogin\s+\S+\s+password\s+(?P<value>\S{4,})",
        r"\bpass(?:word|phrase|code)\s+(?:is|was|of)\s+[\"'`]?(?P<value>(?=\S*\d)[^\s\"'`]{6,})",
        r"\bpass(?:word|phrase|code)\s+(?:is|was|of)\s+[\"'`](?P<value>[^\s\"'`]{6,})",
    )
)
_PERSONAL = re.compile(r"pass(?:word|wd|phrase|code)|pwd|secret", re.IGNORECASE)
_NO_VALUE = re.compile(
    r"\(removed|[$%<*{#@]|\.\.\.|…|x{4,}|\*{3,}"
    r"|(?:none|null|true|false|str|string|bytes|int|bool|float|object|optional|required|unset|empty"
    r"|redacted|hidden|masked|changeme|example|placeholder|your[_-].*|my[_-].*"
    r"|pass(?:word|wd|phrase)?|secret|token|getpass.*|os\..*|self\..*|env\..*|input)\b[\w-]*\Z",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z_][\w.-]*\Z")
_LETTER, _DIGIT = re.compile(r"[A-Za-z]"), re.compile(r"[0-9]")
_LEAST, _LEAST_PERSONAL, _RANDOM = 8, 6, 0.3
_LEAST_WRAPPED = 16
_WRAPPED = re.compile(r"(?:\n[ \t>|]*[A-Za-z0-9+/_=-]{2,}(?=[ \t]*(?:\n|\Z)|[\"'`,;)}\]\\]))+")
_HASH = re.compile(r"(?:sha\d+|md5):", re.IGNORECASE)


def assigned(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each value stands that its name, its option or its sentence calls a secret."""
    for match in _ASSIGNED.finditer(text):
        group = "inside" if match["inside"] is not None else "bare"
        after = text[match.end(group) : match.end(group) + 1]
        if _is_value(match, match[group], after):
            yield match.start(group), _to_end(text, match.end(group), match[group])
    for pattern in _SAID:
        for match in pattern.finditer(text):
            if not _NO_VALUE.match(match["value"]):
                yield match.span("value")


def _is_value(match: re.Match[str], value: str, after: str) -> bool:
    """Return whether what stands at a secret's name is its value, and not code about it."""
    personal = bool(_PERSONAL.search(match["name"]))
    quoted = match["quote"] is not None
    if _NO_VALUE.match(value) or _HASH.match(value) or len(value) < _least(personal=personal):
        return False
    lettered, numbered = bool(_LETTER.search(value)), bool(_DIGIT.search(value))
    if quoted:
        spaced = " " in value.strip()
        return (lettered and numbered and not spaced) or (personal and not spaced)
    if after and after in "([{":
        return False  # a call or an index
    if _NAME.match(value) and _is_code(match, after):
        return numbered and changes(value) >= _RANDOM
    return personal or (lettered and numbered)


def _to_end(text: str, end: int, value: str) -> int:
    """Return where a value ends that a terminal may have wrapped onto a line of its own."""
    wrapped = _WRAPPED.match(text, end) if len(value) >= _LEAST_WRAPPED else None
    return wrapped.end() if wrapped else end


def _least(*, personal: bool) -> int:
    """Return how short a value may be: people's passwords are shorter than made keys."""
    return _LEAST_PERSONAL if personal else _LEAST


def _is_code(match: re.Match[str], after: str) -> bool:
    """Return whether a bare name stands where Python has a name: after ` = `, or as an argument."""
    return match["sign"] in {" = ", " := "} or (bool(after) and after in ",)")
