"""Reproductions as a person sees them: live progress, where the record went, the table, the status.

The rule kept here: exit status 0 as published (or nothing published yet), 1 a verdict differs or a
kernel is wrong, 2 it could not run; one artifact's fault never stops the others, and what was measured
is never lost because it could not be filed.
"""

import dataclasses
import tempfile
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import (
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column, Table
from rich.text import Text

from warplog import report
from warplog.claim import Verdict
from warplog.doubt import doubts
from warplog.entry import Entry
from warplog.evidence import Archive, Known
from warplog.fault import Fault
from warplog.host import Places, longest_first
from warplog.record import Record, dumps
from warplog.runner import Options, Outcome, Where
from warplog.source import Artifact, Repository
from warplog.store import file_name, publish
from warplog.workload import spell

SAME, DIFFERS, COULD_NOT = 0, 1, 2
_WORDS = {SAME: "as published", DIFFERS: "differs or wrong", COULD_NOT: "could not run"}
_STYLES = {
    Verdict.SUPPORTED: "green",
    Verdict.REFUTED: "red",
    Verdict.INCONCLUSIVE: "magenta",
    Verdict.UNTESTED: "dim",
}


@dataclasses.dataclass(frozen=True)
class Session:
    """What one command was asked: the entries to compare with, how to run, whether to publish."""

    repository: Repository
    entries: list[Entry]
    options: Options
    publish: bool
    console: Console

    def reproduce_all(self, artifacts: list[Artifact], places: Places) -> list[int]:
        """Reproduce the artifacts, as many at a time as there are places, the longest first where there
        are several, and return the exit status of each.
        """
        live = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )

        many = places.many > 1
        order = longest_first(artifacts, Archive(self.repository)) if many else artifacts
        pool = ThreadPoolExecutor(places.many)
        try:
            with live:
                came = pool.map(lambda artifact: self._guarded(artifact, places, live), order)
                status = dict(zip([artifact.slug for artifact in order], came, strict=True))
                return [status[artifact.slug] for artifact in artifacts]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            places.stop()
            raise
        finally:
            pool.shutdown()

    def summary(self, artifacts: list[Artifact], statuses: list[int], *, timed: bool) -> None:
        """Print how each artifact came out; without a GPU nothing can be as published."""
        table = Table("artifact", "outcome", title="verify")
        for artifact, status in zip(artifacts, statuses, strict=True):
            words = _WORDS[status] if timed or status != SAME else "right, and nothing was timed"
            table.add_row(artifact.slug, words)
        self.console.print(table)

    def _guarded(self, artifact: Artifact, places: Places, live: Progress) -> int:
        """Reproduce one artifact; whatever goes wrong with it is said, and the others go on."""
        try:
            return self._reproduce(artifact, places, live)
        except (Fault, OSError) as fault:
            self._say(f"{artifact.slug}: {fault}", "bold red")
        except Exception:  # noqa: BLE001 - a bug of ours must not cost the other artifacts
            self._say(traceback.format_exc(), "red")
        return COULD_NOT

    def _reproduce(self, artifact: Artifact, places: Places, live: Progress) -> int:
        task = live.add_task(artifact.slug, total=self.options.runs)
        hear = self._reporter(artifact, live, task)
        try:
            outcome = places.reproduce(artifact, self.options, hear, self._warn)
        finally:
            live.remove_task(task)
        if outcome.record is None:
            self._say_fault(artifact, outcome)
            return DIFFERS if outcome.started else COULD_NOT
        report.refuse_uncompared(outcome.record)
        for note in [*outcome.notes, *outcome.record.disturbed]:
            self._say(f"note: {note}", "yellow")
        known = Archive(self.repository).of(artifact.slug)
        filed = self._file(artifact, outcome.record)
        own = [entry for entry in self.entries if entry.artifact == artifact.slug]
        rows = report.rows(own, known, outcome.record)
        self.console.print(_table(artifact, rows, outcome.record))
        wrong = report.wrong_here(known, outcome.record)
        for each in wrong:
            self._say(f"wrong: {each.subject} on {spell(each.workload)}: {each.failed}", "bold red")
        for line in _doubts(artifact, own, known, outcome):
            self._say(f"note: {line}", "yellow")
        self._say(report.conclusion(rows, outcome.record, wrong))
        if self.publish and outcome.record.device == report.CPU:
            self._say("Nothing is published: without a GPU nothing was timed.", "yellow")
        if not filed:
            return COULD_NOT
        return DIFFERS if wrong or any(row.differs for row in rows) else SAME

    def _reporter(
        self, artifact: Artifact, live: Progress, task: TaskID
    ) -> Callable[[Where], None]:
        """Return what shows where a reproduction is: live on a terminal, else a line a run."""
        begun: set[int] = set()

        def show(where: Where) -> None:
            line = f"{artifact.slug}: run {where.run} of {where.runs}: {spell(where.workload)}"
            live.update(task, description=printable(line), total=where.runs)
            live.update(task, completed=where.run - 1, refresh=True)
            if not self.console.is_terminal and where.run not in begun:
                self._say(f"{artifact.slug}: run {where.run} of {where.runs}", "dim")
            begun.add(where.run)

        return show

    def _say_fault(self, artifact: Artifact, outcome: Outcome) -> None:
        if outcome.output:
            self._say("the last that it wrote:", "dim")
            self.console.print(Text(printable(outcome.output)))
        self._say(f"{artifact.slug}: {outcome.reason}", "bold red")
        if outcome.kept:
            self._say(f"measured before that, incomplete: {_short(outcome.kept)}")
        self._say("No published record was changed.")

    def _file(self, artifact: Artifact, record: Record) -> bool:
        """Publish the record or write it aside, and say where; False if it could not be published."""
        if self.publish and record.device != report.CPU:
            try:
                self._say(f"published: {_short(publish(record, artifact.records))}")
            except (OSError, Fault) as error:
                self._say(f"not published: {error}", "bold red")
                self._keep(artifact, record)
                return False
            return True
        self._keep(artifact, record)
        return True

    def _keep(self, artifact: Artifact, record: Record) -> None:
        """Write the record outside the published ones: where asked, else where temporary files go; where
        nothing can be written at all, print it.
        """
        for folder in ((self.options.aside or Path()) / artifact.slug, None):
            try:
                path = publish(record, folder or _temporary(artifact))
            except (OSError, Fault) as error:
                self._say(f"cannot write there: {error}", "yellow")
            else:
                self._say(f"record (not published): {_short(path)}")
                return
        name = f"{record.device}/{file_name(record.recorded)}"
        self._say(f"record (in no file; save the lines below as {name}):")
        self._say(dumps(record))

    def _warn(self, line: str) -> None:
        self._say(line, "yellow")

    def _say(self, line: str, style: str = "") -> None:
        """Print a line of text as it is: no markup, no wrapping, no control characters."""
        self.console.print(Text(printable(line), style), soft_wrap=True)


def _temporary(artifact: Artifact) -> Path:
    """Return a new folder where temporary files go."""
    return Path(tempfile.mkdtemp(prefix=f"warplog-{artifact.slug}-"))


def _doubts(
    artifact: Artifact, entries: list[Entry], known: Known, outcome: Outcome
) -> Iterator[str]:
    """Yield what the entries name and a try without a GPU did not hold, before a GPU is paid for."""
    tried = outcome.record
    if tried is None or tried.device != report.CPU:
        return
    files = [artifact.folder / name for name in tried.source.files if name.endswith(".py")]
    source = "\n".join(path.read_text("utf-8", "replace") for path in files)
    for entry in entries:
        for kind, group in (("claim", entry.claims), ("value", entry.values)):
            found = doubts(group, tried, known.fresh_records, source, outcome.offered)
            for name, words in found:
                yield f"{kind} {name!r}: {words}"


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
        table.add_row(*(Text(printable(cell)) for cell in cells), Text(here.verdict, style))
    return table


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
