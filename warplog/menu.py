"""Writes a command of the contributor's menu so that it works where it is pasted.

The rule kept here: what is printed begins as the person began who reads it: with their nox, or where no nox
runs this with the Python that does; a page, which strangers read, begins as README does.
"""

import os
import shlex
import shutil
import sys
from pathlib import Path

VARIABLE = "WARPLOG_NOX"  # the noxfile says in it how nox was started
_SET_UP = ".venv/bin/nox"
_NOT_OURS = {"serve": "mkdocs serve --no-strict"}


def command(session: str, *words: str) -> str:
    """Return a session with its words as whoever started this would type it."""
    nox = os.environ.get(VARIABLE)
    if nox:
        return _of_nox(nox, session, words)
    python = Path(sys.executable)
    short = shutil.which(python.name) == sys.executable
    program = _NOT_OURS.get(session, f"warplog {session}")
    return " ".join([python.name if short else shlex.quote(sys.executable), "-m", program, *words])


def documented(session: str, *words: str) -> str:
    """Return a session with its words as README has it, after the set-up that it names."""
    return _of_nox(_SET_UP, session, words)


def _of_nox(nox: str, session: str, words: tuple[str, ...]) -> str:
    return " ".join([nox, "-s", session, *(["--", *words] if words else [])])
