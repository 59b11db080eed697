"""What a fenced `figure` or `source` block of an entry asks for, and the regions of a source file.

The rule kept here: a block names what it shows, so that the page shows what is there now; nothing is
copied into an entry.
"""

import re
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from warplog.fault import Fault
from warplog.names import nearest
from warplog.passage import Passage
from warplog.quantity import Quantity
from warplog.record import Workload
from warplog.source import Artifact, fits
from warplog.workload import parse_workload

KINDS = ("figure", "source")
BOUNDED = {"floor": ("latency",), "ceiling": ("bandwidth", "rate")}
_MARK = re.compile(r"\s*(?:#|//)\s*(?P<end>end)?region(?:\s*:\s*(?P<name>.*?))?\s*\Z")
_FILE = re.compile(r"(?:\.\./shared/)?[\w.-]+(?:/[\w.-]+)*\Z")
_BYTES_AT_MOST = 1_000_000


class FigureBlock(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A chart of a metric. `lines`: along an `axis` of the workload, on logarithmic axes; `curve`: along
    the steps of a training, on linear ones; `ratios`: dots with whiskers beside parity; `bars`: counts.

    `workload` filters the measurements; `over` is the baseline of a speedup. `bound` adds the floor
    of a latency, or the ceiling of a bandwidth or a rate, to lines. `scale` is the vertical one: a
    metric that is zero somewhere needs a linear one. Ratios and bars have a row for each size of the
    `axis` and each subject; where there is one size alone, they need none.
    """

    kind: Literal["lines", "ratios", "bars", "curve"]
    metric: str
    subjects: list[str]
    title: str
    axis: str | None = None
    over: str | None = None
    workload: Workload = {}
    bound: Literal["floor", "ceiling"] | None = None
    caption: str = ""
    scale: Literal["log", "linear"] | None = None
    place: str = ""

    @property
    def size(self) -> str | None:
        """The name of the size that is the axis: `step` for a curve that names none."""
        return "step" if self.axis is None and self.kind == "curve" else self.axis

    @property
    def log(self) -> bool:
        """True where the metric is on a logarithmic scale."""
        return self.scale == "log" if self.scale else self.kind in ("lines", "ratios")

    def quantity(self, subject: str) -> Quantity:
        """Return what is drawn of one subject."""
        return Quantity(metric=self.metric, subject=subject, over=self.over, workload=self.workload)


class SourceBlock(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a file of the artifact: a named region, or all of it."""

    file: str
    region: str | None = None
    place: str = ""


class Excerpt(Struct, frozen=True):
    """Lines of a source file; `first` is the number of the first one."""

    file: str
    region: str | None
    first: int
    text: str


Block = FigureBlock | SourceBlock


def read_block(kind: str, passage: Passage) -> Block:
    """Return the block that `passage` holds, or raise Fault. `kind` is one of KINDS."""
    data = passage.load()
    data = {} if data is None else data
    if not isinstance(data, dict) or "place" in data:
        raise passage.fault("is not keys with values", "see the block in another entry", "place")
    place = f"{passage.place}:{passage.first - 1}"
    if kind == "source":
        return passage.convert(data | {"place": place}, SourceBlock)
    block = passage.convert(_spread(data, passage) | {"place": place}, FigureBlock)
    _check_figure(block, passage)
    return block


def _spread(data: dict[str, Any], passage: Passage) -> dict[str, Any]:
    try:
        return data | {"workload": parse_workload(data["workload"])} if "workload" in data else data
    except ValueError as error:
        remedy = "write names and sizes: length=4096"
        raise passage.fault(f"workload: {error}", remedy, "workload") from None


def _check_figure(block: FigureBlock, passage: Passage) -> None:
    if not block.subjects:
        raise passage.fault("subjects: is empty", "name at least one subject", "subjects")
    if len(set(block.subjects)) != len(block.subjects):
        raise passage.fault("subjects: one is named twice", "keep one of them", "subjects")
    if block.metric == "speedup" and block.over is None:
        raise passage.fault("speedup over what?", "add `over:` with a subject", "metric")
    if block.metric != "speedup" and block.over is not None:
        problem = f"{block.metric} is not over anything"
        raise passage.fault(problem, "remove `over:`, or use the metric speedup", "over")
    if not block.title.strip():
        raise passage.fault("title: is empty", "say what the figure shows", "title")
    if block.kind == "lines" and block.axis is None:
        raise passage.fault("the key 'axis' is missing", "add `axis: ...`", "kind")
    if block.kind in ("ratios", "bars") and block.scale is not None:
        scale = "logarithmic" if block.kind == "ratios" else "linear from zero"
        raise passage.fault(f"scale: {block.kind} are {scale}", "remove `scale:`", "scale")
    if block.bound is not None:
        _check_bound(block, passage)


def _check_bound(block: FigureBlock, passage: Passage) -> None:
    if block.kind != "lines":
        problem = f"bound: {block.kind} have none"
        raise passage.fault(problem, "use the kind lines, or remove `bound:`", "bound")
    if block.metric not in BOUNDED[block.bound or ""]:
        rest = " or ".join(BOUNDED[block.bound or ""])
        problem = f"bound: {block.metric} has no {block.bound}"
        raise passage.fault(problem, f"use the metric {rest}, or remove `bound:`", "bound")


def source_path(block: SourceBlock, artifact: Artifact) -> Path:
    """Return the file that `block` shows: the artifact's own, or one of artifacts/shared."""
    if not _FILE.match(block.file) or not fits(block.file):
        raise Fault(block.place, f"file: {block.file[:80]!r} is no file name", "write kernel.py")
    path = artifact.folder / block.file
    inside = [artifact.folder.resolve(), (artifact.folder.parent / "shared").resolve()]
    if not any(path.resolve().is_relative_to(folder) for folder in inside):
        problem = f"file: {block.file!r} leaves the artifact"
        raise Fault(block.place, problem, "name a file of the artifact, or ../shared/<file>")
    if not path.is_file():
        names = [each.relative_to(artifact.folder).as_posix() for each in artifact.files()]
        problem = f"file: there is no {block.file!r} in artifacts/{artifact.slug}"
        raise Fault(block.place, problem, nearest(block.file, names))
    return path


def excerpt(block: SourceBlock, artifact: Artifact) -> Excerpt:
    """Return the lines that `block` shows, or raise Fault."""
    path = source_path(block, artifact)
    content = path.read_bytes()
    if len(content) > _BYTES_AT_MOST:
        raise Fault(block.place, f"file: {block.file!r} is over a megabyte", "show a smaller file")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise Fault(block.place, f"file: {block.file!r} is not UTF-8", "show a text") from None
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if block.region is None:
        return Excerpt(block.file, None, 1, "\n".join(lines).rstrip("\n"))
    first, last = _region(lines, block, block.region)
    while last > first and not lines[last - 1].strip():  # a formatter's, before `# endregion`
        last -= 1
    return Excerpt(block.file, block.region, first, "\n".join(lines[first - 1 : last]))


def _region(lines: list[str], block: SourceBlock, wanted: str) -> tuple[int, int]:
    """Return the numbers of the first and the last line inside the region `wanted`."""
    opened: list[tuple[str, int]] = []
    names = []
    for number, line in enumerate(lines, start=1):
        mark = _MARK.match(line)
        if mark is None:
            continue
        if not mark["end"]:
            opened.append((mark["name"] or "", number))
            names.append(mark["name"] or "")
        elif opened:
            name, start = opened.pop()
            if name == wanted:
                return start + 1, number - 1
    if wanted in names:
        problem = f"region: {wanted!r} of {block.file} is never closed"
        raise Fault(block.place, problem, "end it with `endregion` in a comment")
    problem = f"region: there is no {wanted!r} in {block.file}"
    raise Fault(block.place, problem, nearest(wanted, names))
