"""What a record must not say: where its texts could name a person, a host or a place. Pure.

The rule kept here: every text is looked at, names of fields too, and what has a form of its own, such as a
version, must have that form; what is found is told by its kind and not shown again.
"""

import re
from collections.abc import Iterator
from typing import Any

from warplog.trace import EMAIL, HOST, traces

_MORE = {  # whether one is there, in a time that grows as the text does
    "path": re.compile(
        r"(?<![\w.…])(?:~|[A-Za-z]:)?[\\/][^\s\\/'\"<>|:]+[\\/]"
        r"|(?<![\w.])(?:~|[A-Za-z]:|/(?:home|Users|root|mnt|tmp|var|opt|data))[\\/]\w"
    ),
    EMAIL: re.compile(r"[\w.+-]@[\w-]+\.[\w.-]"),
    HOST: re.compile(
        r"[a-z0-9-]\.(?:local|localdomain|internal|lan|corp|intra)\b|\w@[\w-]+:",
        re.IGNORECASE,
    ),
    "web address": re.compile(r"[a-z0-9+.-]://", re.IGNORECASE),
}
_TEXT_AT_MOST = 4000
_VERSION = re.compile(r"[0-9][\w.+!-]*\Z")
_SYSTEM = re.compile(r"\w+ [\w-]+\Z")
_INSTRUCTION = re.compile(r"(?:ptx|sass):[\w.]+\Z")
_PYTHON = re.compile(r"[0-9]+(?:\.[0-9]+)+[\w+]*\Z")

Steps = list[str]


def private(data: Any) -> Iterator[tuple[Steps, str]]:
    """Yield the steps to each text of a record, as parsed JSON, that holds a private trace, and its kinds."""
    pending: list[tuple[Steps, Any]] = [([], data)]
    while pending:
        steps, value = pending.pop()
        if isinstance(value, dict):
            for key, each in value.items():
                named = [] if steps == ["source", "files"] else kinds(key)
                if named:
                    yield [*steps, key], f"{', '.join(named)} in a name"
                pending.append(([*steps, key], each))
        elif isinstance(value, list):
            pending += [([*steps, str(index)], each) for index, each in enumerate(value)]
        elif isinstance(value, str) and (found := _of(steps, value)):
            yield steps, ", ".join(found)


def kinds(text: str) -> list[str]:
    """Return what kinds of private traces a text holds; one that is too long to be the harness's is not
    read.
    """
    if len(text) > _TEXT_AT_MOST:
        return [f"more than {_TEXT_AT_MOST} characters"]
    found = [each.kind for each in traces(text)]
    found += [kind for kind, pattern in _MORE.items() if pattern.search(text)]
    return list(dict.fromkeys(found))


def _of(steps: Steps, value: str) -> list[str]:
    """Return the kinds in one text of a record, of which some have a form of their own."""
    match steps:
        case ["environment", "packages", _] | ["environment", "driver"]:
            return [] if _VERSION.match(value) else [*kinds(value), "more than a version"]
        case ["environment", "system"]:
            return [] if _SYSTEM.match(value) else [*kinds(value), "more than a system's kind"]
        case ["environment", "python"]:
            return [] if _PYTHON.match(value) else [*kinds(value), "more than a version"]
        case ["source", "files", _] | ["source", "digest"] | ["seal"]:
            return []
        case ["measurements", _, "metric"] if _INSTRUCTION.match(value):  # ld.local is no host
            return []
        case _:
            return kinds(value)
