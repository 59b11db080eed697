"""Stands beside a process, and ends all that it started when the command that watches it is no more.

The rule kept here: however a command ends, SIGKILL included, nothing that a script started lives on:
whatever bears the mark in its environment is ended, sessions of its own and heirs too.
Run as a file of its own by `child`, so it imports next to nothing.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

MARK = "WARPLOG_PROCESS"
PATIENCE_SECONDS = 5.0
_PAUSE_SECONDS = 0.005
_LOOKS = 3  # one that forks and ends during a look hides from it, and so does its heir


def end_marked(mark: str) -> None:
    """End every process whose environment holds `mark`, and those that are started meanwhile.

    What cannot be ended within five seconds (it waits in a driver) is left alone.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    unseen = 0
    while unseen < _LOOKS and time.monotonic() < deadline:
        found = _marked(mark)
        unseen = 0 if found else unseen + 1
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)


def _marked(mark: str) -> list[int]:
    """Return the processes whose environment holds `mark`, where the system shows it."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def main() -> None:
    """Wait for the command's word that nothing is left; where its pipe closes without, look for it."""
    if not os.read(0, 1):
        end_marked(sys.argv[1])


if __name__ == "__main__":
    main()
