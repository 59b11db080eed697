"""A command's scratch folder among temporary files, and the end of those whose owners are gone.

The rule kept here: a scratch folder outlives its owner only until the next one is made, however the owner
ended, SIGKILL included. One whose owner lives, another user's, and what a person may want to read are left
alone. An owner holds a lock on its folder, and the system lets it go with the process: a process number
would lie between containers that share a disk, and once it is given out again.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "warplog-scratch."
_SCRATCH = (
    f"{_PREFIX}{'[a-z0-9_]' * 8}"  # as tempfile names them; kept records lie in other folders
)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder that is gone at the end, and remove those that nobody owns any more."""
    _sweep()
    path, handle = _owned()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def _owned() -> tuple[Path, int | None]:
    """Make a folder and lock it; where folders cannot be locked none is ever swept.

    Another command's sweep may have taken it in between: then there is another try.
    """
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        handle = _locked(path, fcntl.LOCK_EX)
        if path.is_dir():
            return path, handle
        if handle is not None:
            os.close(handle)


def _sweep() -> None:
    """Remove this user's scratch folders that no living process has locked."""
    for path in Path(tempfile.gettempdir()).glob(_SCRATCH):
        with contextlib.suppress(OSError):
            if path.lstat().st_uid != os.getuid():
                continue
            handle = _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if handle is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(handle)


def _locked(path: Path, operation: int) -> int | None:
    """Return an open, locked handle of a folder (no link to one), or None where that cannot be had."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, operation)
        except OSError:
            os.close(handle)
        else:
            return handle
    return None
