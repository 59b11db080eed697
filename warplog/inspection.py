"""The commands `verify-record` and `compare-records`: look at records that someone offers, and write nothing.

The rule kept here: exit status 0 where there is nothing to object to, 1 where there is, 2 where nothing could
be read; what is counted is said, so that silence is never taken for a check.
"""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from warplog.audit import FRESH, Audit, audit, read_here
from warplog.claim import Verdict
from warplog.contrast import LATENCY, Contrast, Difference, Kind, contrast
from warplog.entry import load_all
from warplog.evidence import Archive
from warplog.fault import Fault
from warplog.menu import command
from warplog.output import plain_text
from warplog.record import Record
from warplog.report import rows
from warplog.source import Repository
from warplog.store import file_name
from warplog.terminal import console
from warplog.unit import pretty_interval

_SHOWN = 10

File = Annotated[Path, typer.Argument(help="The file of a record, wherever it lies.")]
Shown = Annotated[
    int, typer.Option(min=0, help="How many of the numbers that differ most to show.")
]


def verify_record(file: File) -> None:
    """Check a record that someone offers: its seal, its numbers, its source. Needs no GPU."""
    archive = Archive(Repository.find(Path.cwd()))
    found = audit(file, archive)
    for finding in found.findings:
        _say(str(finding))
    if found.record is not None:
        _about(found, found.record, archive, file)
    raise typer.Exit(1 if found.findings else 0)


def _say(words: str) -> None:
    """Print words in one line, with nothing in them that a terminal would obey."""
    typer.echo(plain_text(" ".join(words.split("\n"))))


def _about(found: Audit, record: Record, archive: Archive, file: Path) -> None:
    """Say what was checked and, of a record of this source, what it says of the claims."""
    runs = [run for each in record.measurements for run in each.runs or []]
    _say(
        f"{record.artifact} on {record.device}, {record.recorded}: {len(record.measurements)} measurements, "
        f"{len(runs)} medians from {sum(map(len, runs))} samples; source {found.source}; "
        f"{_objections(len(found.findings))}"
    )
    if found.source == FRESH:
        _judge(record, archive)
        if not found.findings:
            _offer(record, archive, file)


def _judge(record: Record, archive: Archive) -> None:
    """Say what the record says of the claims about its artifact, and which verdicts it disputes."""
    found = load_all(archive.repository, archive)[0]
    entries = [each for each in found if each.artifact == record.artifact]
    judged = rows(entries, archive.of(record.artifact), record)
    counts = Counter(row.here.verdict for row in judged)
    if judged:
        said = ", ".join(f"{counts[each]} {each.value}" for each in Verdict if counts[each])
        _say(f"its claims by this record: {said}")
    for row in judged:
        if row.differs and row.published is not None:
            here, there = row.here.verdict, row.published.verdict
            _say(f"disputes {row.claim}: {here} here, {there} on {row.device}")


def _offer(record: Record, archive: Archive, file: Path) -> None:
    """Say where a sound record goes, unless it is there."""
    where = f"artifacts/{record.artifact}/records/{record.device}/{file_name(record.recorded)}"
    if file.resolve().as_posix().endswith(where):
        return
    if _published(record, archive, where):
        _say(f"it is published already, as {where}: nothing is to be done")
    else:
        check = command("check")
        _say(f"to offer it, copy it to {where} and commit that; `{check}` then tells of it")


def _published(record: Record, archive: Archive, where: str) -> bool:
    """Return whether the very record stands already where it would be filed."""
    history = archive.of(record.artifact).history.get(record.device, ())
    root = archive.repository.root
    there = (each for each in history if each.path.relative_to(root).as_posix() == where)
    return any(each.record.seal == record.seal for each in there)


def _objections(count: int) -> str:
    """Say how many findings there are; that there is none vouches for nobody."""
    if not count:
        return "no sign of error; a seal is no signature"
    return "1 finding" if count == 1 else f"{count} findings"


def compare_records(one: File, other: File, *, shown: Shown = _SHOWN) -> None:
    """Say what tells two records of one artifact apart, and which numbers differ most."""
    first, second = read_here(one), read_here(other)
    if first.artifact != second.artifact:
        problem = f"{first.artifact} and {second.artifact} are two artifacts"
        raise Fault("warplog compare-records", problem, "name two records of one artifact")
    found = contrast(first, second)
    _say(f"{found.kind}: {first.artifact}, {_named(first)} and {_named(second)}")
    for kind, words in found.reasons:
        _say(f"  {kind}: {words}")
    _say(f"  {_counted(found)}")
    if found.apart and shown:
        console().print(_table(found.differences[:shown]))
    raise typer.Exit(0 if found.kind is Kind.SAME else 1)


def _named(record: Record) -> str:
    return f"{record.device} {record.recorded}"


def _counted(found: Contrast) -> str:
    """Say how many latencies and how many other numbers lie apart, and how many only one record has."""
    times = [each for each in found.differences if each.metric == LATENCY]
    facts = [each for each in found.differences if each.metric != LATENCY]
    said = [
        f"{sum(each.apart for each in group)} of {len(group)} {what}"
        for group, what in ((times, "latencies beyond noise"), (facts, "other numbers differ"))
        if group
    ]
    if found.one_ratio is not None:
        ratio = f"{found.one_ratio:.4g}"
        said.append(f"every latency is {'' if ratio == '1' else ratio + ' times '}the first's")
    sides = zip(found.alone, ("first", "second"), strict=True)
    said += [f"{count} in the {which} alone" for count, which in sides if count]
    return "; ".join(said) or "no number to compare"


def _table(differences: tuple[Difference, ...]) -> Table:
    """Return the numbers that differ most, the first record's beside the second's."""
    table = Table("number", "first", "second", "second / first", "noise", box=None)
    for each in differences:
        first, second = each.medians
        ratio = f"{second / first:.3f}" if first else "from zero" if second else "1"
        table.add_row(
            plain_text(f"{each.metric} of {each.subject} {each.workload}".strip()),
            pretty_interval(each.one, each.unit),
            pretty_interval(each.other, each.unit),
            ratio,
            "beyond" if each.apart else "within",
        )
    return table
