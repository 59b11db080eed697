"""How many bytes each instruction of a gather loads of a row, read off the PTX."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
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
    """Compile each way with the older version, side by side; return its widths, of those that it can compile.

    Nothing where the older version is not installed.
    """
    first = older.modules()
    if first is None:
        return {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = dict(zip(ways, pool.map(lambda way: _older_ptx(way, first), ways), strict=True))
    return {way: widths(text) for way, text in texts.items() if text}


def _older_ptx(way: str, first: Path) -> str:
    """Return the PTX of a way as the older version writes it, kept beside the object files; or nothing."""
    kept = kernel.kept(f"{way}, {older.VERSION}").with_suffix(".ptx")
    if not kept.exists():
        told = older.environment(first) | {"CUTE_DSL_ARCH": "sm_90a"}
        command = [sys.executable, str(kernel.FOLDER / "build.py"), json.dumps(way), "0", str(kept)]
        subprocess.run(command, check=False, capture_output=True, env=told)
    return kept.read_text("utf-8") if kept.exists() else ""
