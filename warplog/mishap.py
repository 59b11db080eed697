"""What a person needs of an exception that ended a script: the line of the artifact, the error, the remedy.

The rule kept here: what the artifact or its call of the harness got wrong is one line; whatever else ends in
the harness is a bug of ours, and keeps its traceback.
"""

import traceback
from pathlib import Path

from msgspec import Struct

from warplog.environment import scrub
from warplog.event import REASON_AT_MOST, TEXT_AT_MOST
from warplog.script import OWN, add_script

_HARNESS = Path(__file__).resolve().parent
_MEASURING = {"torch", "triton", "numpy", "pynvml"}


class NotAScript(Exception):
    """The artifact's script cannot be started at all; `str` is the whole line."""


class Mishap(Struct, frozen=True):
    """The line to say, and the rest of the error's text where it has more lines; no `line` where the fault
    is none of the artifact's.
    """

    line: str
    rest: str = ""


def mishap(error: Exception, folder: Path) -> Mishap:
    """Return what to say of `error`, which ended the script of the artifact in `folder`."""
    cause = error.__cause__ if isinstance(error, NotAScript) else error
    if not isinstance(cause, Exception):
        return Mishap(scrub(str(error))[:REASON_AT_MOST])
    place = _place(cause, folder.resolve())
    if not place:
        return Mishap("")
    first, _, rest = str(cause)[:TEXT_AT_MOST].strip().partition("\n")
    name = type(cause).__name__
    if isinstance(cause, SyntaxError):
        first, rest = cause.msg, ""
    remedy = _remedy(cause, folder)
    after = f"; {remedy}" if remedy else ""
    said = scrub(f"{name}: {first}".rstrip(": "))[: REASON_AT_MOST - len(place) - len(after) - 2]
    return Mishap(f"{place}: {said}{after}", scrub(f"{first}\n{rest}") if rest else "")


def _place(error: Exception, folder: Path) -> str:
    """Return the artifact's line that is to blame, ``artifacts/x/kernel.py:7``; empty where none is."""
    frames = [
        (Path(each.filename), each.lineno) for each in traceback.extract_tb(error.__traceback__)
    ]
    if frames and frames[-1][0].is_relative_to(_HARNESS) and not _is_said(error):
        return ""
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((Path(error.filename), error.lineno))
    for path, line in reversed(frames):
        if path.is_relative_to(folder.parent):
            return f"artifacts/{path.relative_to(folder.parent).as_posix()}:{line}"
    return ""


def _is_said(error: Exception) -> bool:
    """Return whether the harness raises such an error to say what a script got wrong."""
    ours = type(error).__module__.partition(".")[0] == __package__
    return ours or type(error) in (ValueError, SyntaxError, ModuleNotFoundError)


def _remedy(error: Exception, folder: Path) -> str:
    """Return what to do about an error whose remedy does not depend on the script; empty for others."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    name = error.name.partition(".")[0]
    if name in OWN:
        return add_script(folder.name, name)
    if name in _MEASURING:
        return "install what measuring needs: pip install -e '.[measure]'"
    return f"name its package in artifacts/{folder.name}/requirements.txt, which nox installs"
