"""Reproductions as a person sees them: live progress, where the record went, the table, the status.

The rule kept here: exit status 0 as published (or nothing published yet), 1 a verdict differs or a
kernel is wrong, 2 it could not run; one artifact's fault never stops the others.
"""

import dataclasses
import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from warplog import report, runner
from warplog.claim import Verdict, spell
from warplog.entry import Entry
from warplog.evidence import Archive, Known
from warplog.record import Measurement, Record, dumps, file_name, publish, write_whole
from warplog.runner import Options, Outcome, Progress
from warplog.source import Artifact, Repository

SAME, DIFFERS, COULD_NOT = 0, 1, 2
_STYLES = {
    Verdict.SUPPORTED: "green",
    Verdict.REFUTED: "red",
    Verdict.INCONCLUSIVE: "magenta",
    Verdict.UNTESTED: "dim",
}


@dataclass(frozen=True)
class Session:
    """What one command was asked: the entries to compare with, how to run, whether to publish."""

    repository: Repository
    entries: list[Entry]
    options: Options
    publish: bool
    console: Console

    def reproduce(self, artifact: Artifact, gpu: int | None) -> int:
        """Reproduce one artifact on GPU number `gpu` (None: the CPU, correctness only), print what
        came of it, and return the exit status.
        """
        known = Archive(self.repository).of(artifact.slug)
        options = dataclasses.replace(self.options, gpu=gpu)
        if gpu is None:
            options = dataclasses.replace(options, runs=1)
        outcome = runner.reproduce(artifact, options, self._progress(artifact))
        if outcome.record is None:
            self._say_fault(artifact, outcome)
            return COULD_NOT if _is_missing(outcome) else DIFFERS
        record = outcome.record
        for note in [*outcome.notes, *record.disturbed]:
            self.console.print(Text(f"note: {note}", "yellow"))
        self._keep(artifact, record)
        return self._compare(artifact, known, record)

    def verify(self, artifacts: list[Artifact], gpus: int) -> int:
        """Reproduce all `artifacts`, one at a time on each GPU, and end with a summary."""
        free: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        for number in range(gpus):
            free.put(number)
        if gpus == 0:
            free.put(None)

        def one(artifact: Artifact) -> int:
            gpu = free.get()
            try:
                return self.reproduce(artifact, gpu)
            finally:
                free.put(gpu)

        with ThreadPoolExecutor(max(1, gpus)) as pool:
            statuses = list(pool.map(one, artifacts))
        words = {SAME: "as published", DIFFERS: "differs or wrong", COULD_NOT: "could not run"}
        table = Table("artifact", "outcome", title="verify")
        for artifact, status in zip(artifacts, statuses, strict=True):
            table.add_row(artifact.slug, words[status])
        self.console.print(table)
        return max(statuses, default=SAME)

    def _progress(self, artifact: Artifact) -> Callable[[Progress], None]:
        def show(progress: Progress) -> None:
            where = f"run {progress.run} of {progress.runs}"
            line = Text(f"{artifact.slug}: {where}: {spell(progress.workload)}", "dim")
            self.console.print(line, no_wrap=True, overflow="ellipsis")

        return show

    def _say_fault(self, artifact: Artifact, outcome: Outcome) -> None:
        if outcome.output:
            self.console.print(Text("the last that it wrote:", "dim"))
            self.console.print(Text(printable(outcome.output)))
        self.console.print(Text(f"{artifact.slug}: {outcome.reason}", "bold red"))
        if outcome.kept:
            line = f"measured before that, incomplete: {_short(outcome.kept)}"
            self.console.print(Text(line))
        self.console.print("No published record was changed.")

    def _keep(self, artifact: Artifact, record: Record) -> None:
        """Publish the record, or write it aside."""
        if not self.publish:
            folder = (self.options.aside or Path()) / artifact.slug / record.device
            path = folder / file_name(record.recorded)
            write_whole(path, dumps(record))
            self.console.print(Text(f"record (not published): {_short(path)}"))
        elif record.device == "cpu":
            self.console.print("Not published: without a GPU nothing was timed.")
        else:
            path = publish(record, artifact.records)
            self.console.print(Text(f"published: {_short(path)}"))

    def _compare(self, artifact: Artifact, known: Known, record: Record) -> int:
        own = [entry for entry in self.entries if entry.artifact == artifact.slug]
        found = report.rows(own, known, record)
        self.console.print(_table(artifact, found, record))
        wrong = report.wrong_here(known, record)
        for each in wrong:
            line = f"wrong: {each.subject} on {spell(each.workload)}: {each.failed}"
            self.console.print(Text(printable(line), "bold red"))
        self.console.print(Text(_conclusion(record, found, wrong)))
        return DIFFERS if wrong or any(row.differs for row in found) else SAME


def _is_missing(outcome: Outcome) -> bool:
    """Return whether the script could not even start for want of a package."""
    return "ModuleNotFoundError" in (outcome.reason or "")


def _table(artifact: Artifact, rows: list[report.Row], record: Record) -> Table:
    title = f"{artifact.slug} on {record.device}"
    claim = Column("claim", overflow="fold")
    table = Table(claim, "reported", "published", "here", "verdict", title=title)
    for row in rows:
        published, here = "nothing yet", row.here
        if row.published is not None:
            value = report.measured(row.published)
            published = f"{value} ({row.published.verdict}, {row.device})"
        style = "bold red" if row.differs else _STYLES[here.verdict]
        cells = [row.claim, row.reported, published, report.measured(here)]
        table.add_row(*map(Text, cells), Text(here.verdict, style))
    return table


def _conclusion(record: Record, rows: list[report.Row], wrong: list[Measurement]) -> str:
    """Say in a sentence what the comparison came to."""
    differing = [row.claim for row in rows if row.differs]
    if wrong:
        return "A kernel is wrong here: see above."
    if record.device == "cpu":
        checked = sum(each.metric == "error" for each in record.measurements)
        return (
            f"No GPU here: {checked} checks of correctness at tiny sizes passed, and nothing was "
            "timed. The verdicts above are the published ones. To see the site: nox -s serve"
        )
    if differing:
        return f"Different from what is published: {', '.join(differing)}."
    tested = sum(row.here.verdict is not Verdict.UNTESTED for row in rows)
    measured = f"{tested} of {len(rows)} claims measured here."
    if all(row.published is None for row in rows):
        return f"Nothing is published yet to compare with: {measured}"
    return f"Same verdicts as published: {measured}"


def printable(text: str) -> str:
    """Return `text` with its control characters (escape codes too) shown and not obeyed."""
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )


def _short(path: Path) -> str:
    """Return `path` as seen from the working folder where that is shorter."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)
