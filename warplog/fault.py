"""One exception for everything that an author can mend; anything else is a bug and keeps its traceback."""

import errno
import unicodedata

_LONGEST = 1000
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM}


class Fault(Exception):
    """A mistake in an entry, a record, an artifact or a command, with its place and its remedy.

    `str(fault)` is one line: ``place: problem; remedy``. What is in the problem comes from files that
    anyone may have written, so nothing in the line is obeyed by a terminal, and none is without end.
    """

    def __init__(self, place: str, problem: str, remedy: str) -> None:
        """`place` is ``file``, ``file:line`` or a command; `remedy` says what to do about it."""
        super().__init__(f"{_line(place)}: {_line(problem)}; {_line(remedy)}")
        self.place = place
        self.problem = problem
        self.remedy = remedy


class Faults(Exception):
    """Several faults found in one pass, so that an author mends them together."""

    def __init__(self, faults: list[Fault]) -> None:
        """Keep `faults` in the order in which they were found; there is at least one."""
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = faults


def remedy_of(error: OSError) -> str:
    """Return what to do about an error of the system: a full disk, a folder that may not be written."""
    if error.errno in _FULL:
        return "free some space, then run it again"
    if error.errno in _REFUSED:
        return "run it in a checkout that you may write to"
    return "mend that, then run it again"


def _line(text: str) -> str:
    """Return `text` as one line of characters that are seen: others as their escapes, cut at the end."""
    shown = text if text.isprintable() else "".join(map(_seen, text))
    left_out = len(shown) - _LONGEST
    return f"{shown[:_LONGEST]} [... {left_out} characters left out]" if left_out > 0 else shown


def _seen(character: str) -> str:
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()
