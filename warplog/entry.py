"""Reads `entries/YYYY-MM-DD-<slug>.md`, or says which line is wrong and how to mend it.

The rule kept here: everything that is wrong is found in one pass and raised together as Faults. CRLF and
a byte order mark are accepted, and `fill` leaves them as they are: an entry's text is the file's.
Names are checked against the fresh records; without any, they wait for the first reproduction.
"""

import re
import statistics
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from msgspec import Struct

from warplog.block import FigureBlock, SourceBlock, excerpt
from warplog.body import Body, read_body, text_faults
from warplog.claim import Claim
from warplog.evidence import Archive, Evidence
from warplog.fault import Fault, Faults
from warplog.front import Matter, read_matter
from warplog.markup import line_at
from warplog.names import nearest, problems
from warplog.passage import Passage
from warplog.quantity import Quantity
from warplog.reading import Reading, Unmeasured
from warplog.record import Interval, Record
from warplog.source import Artifact, Repository
from warplog.unit import pretty, pretty_interval

_NAME = re.compile(r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})-(?P<slug>[a-z0-9]+(?:-[a-z0-9]+)*)\.md")
_OPENING = re.compile(r"\ufeff?---[ \t]*(?:\r?\n|\Z)")
_CLOSING = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)
_BYTES_AT_MOST = 1_000_000


class Entry(Struct, frozen=True, kw_only=True):
    """A dated story about one artifact, measured first of all on one device.

    `headline` is the claim or value that the page opens with, None where it has neither.
    `place` is the path as errors show it. A draft is checked like any other, but not published.
    """

    path: Path
    place: str
    slug: str
    title: str
    date: date
    artifact: str
    device: str
    tags: tuple[str, ...]
    summary: str
    headline: str | None
    draft: bool
    claims: dict[str, Claim]
    values: dict[str, Quantity]
    front: Passage
    body: Body

    @property
    def quantities(self) -> dict[str, Quantity]:
        """Claims and values by id: all that a number in the prose can name."""
        return {**self.claims, **self.values}

    def at(self, offset: int) -> str:
        """Return the place of an offset into the text: ``entries/x.md:14``."""
        return f"{self.place}:{line_at(self.body.text, offset)}"


def load(path: Path, repository: Repository, archive: Archive | None = None) -> Entry:
    """Return the entry at `path`, or raise Faults with all that is wrong with it.

    `archive` keeps the records that were read already; give one when loading several entries.
    """
    place = f"entries/{path.name}"
    faults: list[Fault] = []
    try:
        name = _name(path, place, repository)
        text = _read(path, place)
        faults += text_faults(text, place)
        entry = None if faults else parse(text, path, name, faults)
        if entry is not None:
            faults += _name_faults(entry, archive or Archive(repository))
    except Fault as fault:
        raise Faults([fault]) from None
    if entry is None or faults:
        raise Faults(faults)
    return entry


def load_all(
    repository: Repository, archive: Archive | None = None
) -> tuple[list[Entry], list[Fault]]:
    """Return the entries that are right, oldest first, and the faults of the others."""
    archive = archive or Archive(repository)
    entries: dict[str, Entry] = {}
    faults: list[Fault] = []
    for path in sorted((repository.root / "entries").glob("*.md")):
        try:
            entry = load(path, repository, archive)
        except Faults as found:
            faults += found.faults
            continue
        first = entries.setdefault(entry.slug, entry)
        if first is not entry:
            faults.append(same_slug(entry, first))
    return list(entries.values()), faults


def same_slug(entry: Entry, first: Entry) -> Fault:
    """Return the fault of an entry whose slug an earlier one has."""
    problem = f"the slug {entry.slug!r} is also that of {first.place}"
    return Fault(entry.place, problem, "give one of them another slug")


def fill(entry: Entry, repository: Repository, archive: Archive | None = None) -> str:
    """Return the entry's text with each measured number as the record of its device has it.

    All else stays byte for byte, line endings too: write it with ``newline=""``. A number that no
    fresh record holds stays as it is.
    """
    evidence = (archive or Archive(repository)).of(entry.artifact).devices.get(entry.device)
    text, pieces, last = entry.body.text, [], 0
    for link in entry.body.links:
        words = measured(entry.quantities[link.id], evidence)
        if words is not None:
            pieces += [text[last : link.text_start], words]
            last = link.text_end
    return "".join([*pieces, text[last:]])


def measured(quantity: Quantity, evidence: Evidence | None) -> str | None:
    """Return what the prose says of `quantity`: the median of its runs, or for several workloads
    ``low–high`` over all their runs; None where nothing fresh was measured.
    """
    if evidence is None or not evidence.fresh:
        return None
    try:
        found = evidence.readings(quantity)
    except Unmeasured:
        return None
    return spoken(found)


def spoken(found: Sequence[Reading]) -> str:
    """Return what the prose says of readings, of which there is at least one."""
    unit = found[0].unit
    if len(found) == 1:
        return pretty(float(statistics.median(found[0].runs)), unit)
    return pretty_interval(Interval.of([value for each in found for value in each.runs]), unit)


def parse(text: str, path: Path, name: re.Match[str], faults: list[Fault]) -> Entry | None:
    """Return the entry in `text`, and add to `faults` what is wrong without looking at records.

    None where even its keys cannot be read.
    """
    place = f"entries/{path.name}"
    opening = _OPENING.match(text)
    closing = _CLOSING.search(text, opening.end()) if opening else None
    if opening is None or closing is None:
        remedy = "put the front matter between two lines `---` at the top"
        faults.append(Fault(f"{place}:1", "there is no front matter", remedy))
        return None
    passage = Passage(text[opening.end() : closing.start()], place, 2)
    matter = read_matter(passage, faults)
    if matter is None:
        return None
    if matter.date not in (date.min, date.fromisoformat(name["day"])):
        problem = f"date: {matter.front.date} is not that of the file name"
        faults.append(passage.fault(problem, f"write {name['day']}, or rename the file", "date"))
    ids = set(matter.front.claims) | set(matter.front.values)
    body = read_body(text, closing.end(), place, ids, faults)
    return _assemble(matter, path, name["slug"], passage, body)


def _assemble(matter: Matter, path: Path, slug: str, passage: Passage, body: Body) -> Entry:
    front = matter.front
    return Entry(
        path=path,
        place=passage.place,
        slug=slug,
        title=front.title,
        date=matter.date,
        artifact=front.artifact,
        device=front.device,
        tags=tuple(front.tags),
        summary=front.summary,
        headline=front.headline or next(iter(front.claims), None),
        draft=front.draft,
        claims=matter.claims,
        values=matter.values,
        front=passage,
        body=body,
    )


def _name(path: Path, place: str, repository: Repository) -> re.Match[str]:
    """Return the date and the slug in the file's name, or raise Fault."""
    name = _NAME.fullmatch(path.name)
    try:
        date.fromisoformat(name["day"] if name else "")
    except ValueError:
        name = None
    if name is None:
        remedy = "name it YYYY-MM-DD-<slug>.md with a slug of a-z, 0-9 and single hyphens"
        raise Fault(place, "is no name of an entry", remedy)
    if not path.resolve().is_relative_to((repository.root / "entries").resolve()):
        raise Fault(place, "leaves the folder entries", "put the file itself there")
    return name


def _read(path: Path, place: str) -> str:
    """Return the text of an entry, line endings as they are, or raise Fault."""
    try:
        content = path.read_bytes()
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise Fault(place, problem, "name an entry of entries/") from None
    if len(content) > _BYTES_AT_MOST:
        raise Fault(place, "is over a megabyte", "tell it shorter")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = f"the byte 0x{content[error.start]:02x} is not UTF-8"
        raise Fault(f"{place}:{line}", problem, "save the file as UTF-8") from None


def _name_faults(entry: Entry, archive: Archive) -> Iterator[Fault]:
    """Yield a fault for each artifact, subject, metric, workload and file that does not exist."""
    try:
        known = archive.of(entry.artifact)
    except Fault as fault:
        slugs = [artifact.slug for artifact in archive.repository.artifacts()]
        problem = f"artifact: {entry.artifact[:80]!r}: {fault.problem}"
        yield entry.front.fault(problem, nearest(entry.artifact, slugs), "artifact")
        return
    records = known.fresh_records
    for kind, group in (("claim", entry.claims), ("value", entry.values)):
        for name, quantity in group.items():
            part = entry.front.at(f"{kind} {name!r}: ", f"{kind}s", name)
            for each in problems(quantity, records):
                yield part.fault(each.problem, each.remedy, each.key)
    for placed in entry.body.blocks:
        if isinstance(placed.block, FigureBlock):
            yield from _figure_faults(placed.block, records)
        elif isinstance(placed.block, SourceBlock):
            yield from _source_faults(placed.block, known.artifact)


def _figure_faults(block: FigureBlock, records: list[Record]) -> Iterator[Fault]:
    found = [each for name in block.subjects for each in problems(block.quantity(name), records)]
    for each in dict.fromkeys(found):
        yield Fault(block.place, f"figure: {each.problem}", each.remedy)


def _source_faults(block: SourceBlock, artifact: Artifact) -> Iterator[Fault]:
    try:
        excerpt(block, artifact)
    except Fault as fault:
        yield fault
