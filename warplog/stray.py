"""Finds the entries and records that lie where nothing reads them, and says where they belong.

The rule kept here: what looks like an entry or a record and is read as none is a fault, because silence would
be taken for a check.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from warplog.fault import Fault
from warplog.record import loads
from warplog.source import Repository
from warplog.store import file_name

_MARKDOWN = {".md", ".markdown", ".mdown", ".mkd", ".mkdn"}
_DATED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-.")
_RECORD_KEYS = (b'"artifact"', b'"device"', b'"recorded"', b'"measurements"')
_BYTES_AT_MOST = 4_000_000


def stray(repository: Repository) -> Iterator[Fault]:
    """Yield a fault for each entry and record that lies elsewhere than where it is read."""
    root = repository.root
    top = [path for path in sorted(root.iterdir()) if path.is_file() and path.name[0] != "."]
    for path in [*top, *_below(root / "entries"), *_below(root / "artifacts")]:
        if _is_markdown(path):
            yield from _entry(path, root)
        elif path.suffix.lower() == ".json" and path.parent != root:
            yield from _record(path, root)


def _below(folder: Path) -> Iterator[Path]:
    """Yield the files below `folder` that are seen, but not those of an artifact's `records/`."""
    depth = len(folder.parts)
    for here, folders, files in os.walk(folder):
        filed = folder.name == "artifacts" and len(Path(here).parts) == depth + 1
        kept = [
            name for name in folders if name[0] not in "._" and not (filed and name == "records")
        ]
        folders[:] = sorted(kept)
        yield from (Path(here) / name for name in sorted(files) if name[0] != ".")


def _is_markdown(path: Path) -> bool:
    return path.suffix.lower() in _MARKDOWN


def _entry(path: Path, root: Path) -> Iterator[Fault]:
    """Yield a fault for a text that is read as no entry: one under entries/, or one with an entry's name."""
    place, home = path.relative_to(root), root / "entries"
    target = f"entries/{path.stem}.md"
    if path.is_relative_to(home):
        if path.parent == home and path.suffix == ".md":
            return  # it is read, and what is wrong with it is said
        why = "in a folder of its own" if path.parent != home else f"with the ending {path.suffix}"
        yield Fault(place.as_posix(), f"is read as no entry {why}", f"move it to {target}")
    elif _DATED.match(path.name):
        remedy = f"move it to {target}, or give it a name without a date"
        yield Fault(place.as_posix(), "has the name of an entry and is read as none here", remedy)


def _record(path: Path, root: Path) -> Iterator[Fault]:
    """Yield a fault for a record outside the folders of records."""
    place = path.relative_to(root).as_posix()
    try:
        if not path.is_file() or path.stat().st_size > _BYTES_AT_MOST:
            return
        text = path.read_bytes()
    except OSError:  # of an artifact's file, and its digest tells of it
        return
    if not all(key in text for key in _RECORD_KEYS):
        return
    try:
        record = loads(text, place, sealed=False)
    except Fault:
        remedy = "move it to records/<device>/ of its artifact"
    else:
        filed = f"artifacts/{record.artifact}/records/{record.device}/{file_name(record.recorded)}"
        remedy = f"move it to {filed}"
    yield Fault(place, "is a record, and is read as none here", remedy)
