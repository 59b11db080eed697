"""Finds all that is wrong with the entries, records and claims of a repository, in one pass.

The rule kept here: nothing is measured and nothing is written; each fault says where, what and how to
mend it. Needs no GPU and no torch.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from warplog import figure
from warplog.block import FigureBlock
from warplog.entry import Entry, load_all, measured
from warplog.evidence import Archive, Evidence
from warplog.fault import Fault
from warplog.markup import blank, line_around, measured_numbers
from warplog.menu import command
from warplog.publication import only_drafts, stale, unmet
from warplog.script import script_faults
from warplog.source import Artifact, Repository
from warplog.stray import stray

_NAMED = re.compile(rb"^artifact:[ \t]*[\"']?([a-z0-9-]+)", re.MULTILINE)
_LINK = re.compile(r"\[[^\[\]]*\]\(#[^()\s]*\)")
_EXTERNAL = re.compile(r"\]\(<?https?://|<https?://")


def check(repository: Repository, archive: Archive | None = None) -> list[Fault]:
    """Return every fault of `repository`, by place; an empty list means that all is as recorded.

    `archive` keeps the records that are read, for a caller who asks for more than the faults.
    """
    archive = archive or Archive(repository)
    entries, faults = load_all(repository, archive)
    hidden = only_drafts(entries)
    for artifact in repository.artifacts():
        faults += _artifact_faults(artifact, archive, may_be_stale=artifact.slug in hidden)
    faults += _folder_faults(repository)
    faults += _unnamed(repository)
    faults += stray(repository)
    for entry in entries:
        faults += entry_faults(entry, archive)
    return sorted(faults, key=_order)


def _order(fault: Fault) -> tuple[str, int]:
    file, _, line = fault.place.partition(":")
    return file, int(line) if line.isdigit() else 0


def _artifact_faults(
    artifact: Artifact, archive: Archive, *, may_be_stale: bool
) -> Iterator[Fault]:
    """Yield a fault for each record that cannot be read and for each device whose newest is stale."""
    try:
        known = archive.of(artifact.slug)
    except Fault as fault:
        yield fault
        return
    yield from {str(fault): fault for fault in [*known.faults, *_file_faults(artifact)]}.values()
    if not may_be_stale:
        yield from stale(known, archive)


def _file_faults(artifact: Artifact) -> Iterator[Fault]:
    """Yield a fault where a file of the artifact can be neither recorded nor published, or is no script."""
    try:
        files = artifact.files()
    except Fault as fault:
        yield fault
    else:
        yield from script_faults(artifact, files)


def _folder_faults(repository: Repository) -> Iterator[Fault]:
    """Yield a fault for each folder under artifacts/ that no command can run."""
    for folder in sorted((repository.root / "artifacts").iterdir()):
        if not folder.is_dir() or folder.name == "shared" or folder.name[0] in "._":
            continue
        if not (folder / "reproduce.py").is_file():
            remedy = "add one, or remove the folder"
            yield Fault(f"artifacts/{folder.name}", "has no reproduce.py", remedy)


def _unnamed(repository: Repository) -> Iterator[Fault]:
    """Yield a fault for each artifact that no entry names, however wrong that entry may be."""
    named: set[str] = set()
    for path in (repository.root / "entries").glob("*.md"):
        if path.is_file():
            named |= {match.decode() for match in _NAMED.findall(_head(path))}
    for artifact in repository.artifacts():
        if artifact.slug not in named:
            problem = "no entry tells of this artifact"
            remedy = f"write one with `artifact: {artifact.slug}`"
            yield Fault(f"artifacts/{artifact.slug}", problem, remedy)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(65_536)


def entry_faults(entry: Entry, archive: Archive) -> Iterator[Fault]:
    """Yield what is wrong with an entry beside its records: claims, numbers, figures.

    What a draft still lacks for publication is no fault: `publication.notes` tells of it.
    """
    evidence = archive.of(entry.artifact).devices.get(entry.device)
    if not entry.draft:
        yield from unmet(entry, archive.of(entry.artifact))
    yield from _texts(entry, evidence)
    yield from _loose_numbers(entry)
    yield from _figures(entry, archive)


def _texts(entry: Entry, evidence: Evidence | None) -> Iterator[Fault]:
    """Yield a fault for each measured number whose text is not what the record says."""
    for link in entry.body.links:
        words = measured(entry.quantities[link.id], evidence)
        if words is not None and words != link.text:
            problem = f"the text [{link.text[:40]}](#{link.id}) is not the record's {words}"
            yield Fault(entry.at(link.start), problem, f"run `{command('fill', entry.slug)}`")


def _loose_numbers(entry: Entry) -> Iterator[Fault]:
    """Yield a fault for each number with a unit that is bound to no record and to no source."""
    remedy = "write [?](#claim-or-value), or link its source on the same line"
    text = entry.body.text
    prose = _LINK.sub(lambda match: blank(match[0]), entry.body.prose)
    has_source = cache(_EXTERNAL.search)  # a line with many numbers is searched once
    for offset, number in measured_numbers(prose, entry.body.start):
        if not has_source(line_around(text, offset)):
            yield Fault(entry.at(offset), f"the number {number!r} stands on nothing", remedy)
    said: list[tuple[tuple[str, ...], str]]
    said = [(("title",), entry.title), (("summary",), entry.summary)]
    said += [(("claims", name, "cause"), each.cause or "") for name, each in entry.claims.items()]
    for keys, words in said:
        for _, number in measured_numbers(words):
            who = f"claim {keys[1]!r}: cause" if len(keys) > 1 else keys[0]
            problem = f"{who}: the number {number!r} would not follow the record"
            yield entry.front.fault(problem, "say it without a measured number", *keys)


def _figures(entry: Entry, archive: Archive) -> Iterator[Fault]:
    known = archive.of(entry.artifact)
    if not known.fresh_records:
        return
    for placed in entry.body.blocks:
        if isinstance(placed.block, FigureBlock):
            try:
                figure.panels(placed.block, known.devices.values())
            except Fault as fault:
                yield fault
