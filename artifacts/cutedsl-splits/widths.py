"""How many bytes each instruction of a gather loads of a row, read off the PTX."""

import re
from collections.abc import Sequence
from pathlib import Path

import kernel
from shared import cutedsl_older as older

_LOAD = re.compile(
    r"ld\.global(?:\.nc|\.L\w+(?:::\w+)*|\.relaxed|\.gpu)*(\.v[24])?\.(?:b|u)(\d+)\s"
)
_ASYNC = re.compile(r"cp\.async\.c[ag]\.shared\.global(?:\.L2::\w+)? \[[^]]*\], \[[^]]*\], (\d+)")
_BULK = re.compile(r"cp\.async\.bulk\.shared::\w+\.global\S* \[[^]]*\], \[[^]]*\], (%?\w+)")
ROW_BYTES, LIST_LOADS = 1024, 4  # a warp looks up four rows


def widths(ptx: str) -> list[int]:
    """Return the bytes of each instruction that fetches some of a row, in the order of the text.

    The first loads are those of the list, one 32-bit number for each of a warp's four rows.
    """
    found = []
    for line in ptx.splitlines():
        load, asynchronous, bulk = _LOAD.search(line), _ASYNC.search(line), _BULK.search(line)
        if load:
            found.append(int((load[1] or ".v1")[2:]) * int(load[2]) // 8)
        elif asynchronous:
            found.append(int(asynchronous[1]))
        elif bulk:
            found.append(ROW_BYTES)
    for _ in range(LIST_LOADS):
        found.remove(4)
    return found


def of_older(ways: Sequence[str]) -> dict[str, list[int]]:
    """Return the widths of each way as the older version compiles it, of those that it can compile.

    Nothing where the older version is not installed.
    """
    build_older(ways)
    texts = {way: _kept(way) for way in ways}
    return {way: widths(path.read_text("utf-8")) for way, path in texts.items() if path.exists()}


def build_older(ways: Sequence[str]) -> None:
    """Compile each way with the older version, where it is installed and what is not kept yet."""
    first = older.modules()
    if first is not None:
        wanted = [(way, 0, _kept(way)) for way in ways]
        kernel.compile_apart(wanted, older.environment(first))


def _kept(way: str) -> Path:
    """Return where the PTX of a way as the older version writes it is kept: beside the object files."""
    return kernel.kept(f"{way}, {older.VERSION}").with_suffix(".ptx")
