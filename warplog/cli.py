"""The command `warplog`: thin, and `python -m warplog` is the same.

The rule kept here: what a person can mend is one line with place, problem and remedy, no traceback.
Exit status: 0 as published, 1 something differs or is wrong, 2 it could not run.
"""

import contextlib
import json
import re
import signal
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from warplog import authorship, drafting, inspection
from warplog import entry as entries
from warplog.check import check as faults_of
from warplog.entry import Entry
from warplog.evidence import Archive
from warplog.fault import Fault, Faults, remedy_of
from warplog.option import Commit, Device, Gpu, Limit, Names, On, Out, Publish, Runs
from warplog.publication import counted, disputes, notes
from warplog.record import schema as record_schema
from warplog.source import Artifact, Repository
from warplog.store import write_whole
from warplog.terminal import console

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
for each in (authorship.new, drafting.draft, inspection.verify_record, inspection.compare_records):
    app.command()(each)

Tools = Annotated[list[str] | None, typer.Option(help="memcheck, racecheck or synccheck; all.")]
Pooled = Annotated[
    bool,
    typer.Option("--pooled", help="Keep torch's allocator, which captures of CUDA graphs need."),
]


@app.command()
def reproduce(
    names: Names = None,
    *,
    publish: Publish = False,
    runs: Runs = 6,
    time_limit: Limit = 900.0,
    gpu: Gpu = None,
    commit: Commit = None,
    out: Out = None,
    on: On = None,
    device: Device = None,
) -> None:
    """Measure an artifact again and compare it, claim by claim, with what is published."""
    from warplog import host, runner, session  # noqa: PLC0415 - reading commands start without it

    repository = Repository.find(Path.cwd())
    if not names:
        _list(repository)
        return
    if publish and runs < runner.RUNS:
        remedy = f"publish from {runner.RUNS} or more, or leave --publish out"
        raise Fault("warplog reproduce", f"{runs} processes are too few to publish", remedy)
    found = _entries(repository)
    artifacts = [_artifact(repository, found, name) for name in names]
    options = runner.Options(runs, time_limit, commit=_hex(commit), aside=_aside(repository, out))
    one = session.Session(repository, found, options, publish, console())
    with host.places(on, device, found, 0 if gpu is None and on is None else gpu) as places:
        statuses = one.reproduce_all(artifacts, places)
    raise typer.Exit(max(statuses))


@app.command()
def verify(
    *,
    runs: Runs = 6,
    time_limit: Limit = 900.0,
    out: Out = None,
    on: On = None,
    device: Device = None,
) -> None:
    """Reproduce every artifact, one at a time on each GPU present, and end with a summary."""
    from warplog import host, runner, session  # noqa: PLC0415 - reading commands start without it

    repository = Repository.find(Path.cwd())
    options = runner.Options(runs, time_limit, aside=_aside(repository, out))
    found, artifacts = _entries(repository), repository.artifacts()
    one = session.Session(repository, found, options, publish=False, console=console())
    with host.places(on, device, found) as places:
        statuses = one.reproduce_all(artifacts, places)
        one.summary(artifacts, statuses, timed=places.timed)
    raise typer.Exit(max(statuses, default=session.SAME))


@app.command()
def sanitize(
    names: Names = None,
    *,
    tool: Tools = None,
    pooled: Pooled = False,
    time_limit: Limit = 900.0,
    gpu: Gpu = None,
) -> None:
    """Look for memory and synchronization faults at an artifact's tiny sizes, on a GPU."""
    from warplog import runner, sanitizer  # noqa: PLC0415 - reading commands start without it

    repository = Repository.find(Path.cwd())
    found = _entries(repository) if names else []
    chosen = [_artifact(repository, found, name) for name in names or []]
    artifacts = chosen or repository.artifacts()
    tools = sanitizer.tools(tool or [])
    present, gpu = runner.gpus(), gpu or 0
    if gpu >= present:
        remedy = f"use 0 to {present - 1}" if present else "run it on a machine that has one"
        raise Fault("warplog sanitize", f"there is no GPU {gpu} here", remedy)
    sanitizer.program()
    options = runner.Options(1, time_limit, gpu)
    raise typer.Exit(sanitizer.examine_all(artifacts, tools, options, typer.echo, pooled=pooled))


@app.command()
def check() -> None:
    """Say everything that is wrong with entries, claims and records. Needs no GPU and no torch."""
    repository = Repository.find(Path.cwd())
    archive = Archive(repository)
    faults = faults_of(repository, archive)
    found, _ = entries.load_all(repository, archive)
    for note in [*notes(found, archive), *disputes(found, archive)]:
        typer.echo(f"note: {note}")
    if faults:
        raise Faults(faults)
    typer.echo(counted(found))


@app.command()
def fill(names: Names = None) -> None:
    """Write the measured numbers into the entries named (all, if none is): text, never claims."""
    repository = Repository.find(Path.cwd())
    archive = Archive(repository)
    found, faults = entries.load_all(repository, archive)
    chosen = [_entry(name, found, faults, repository) for name in names or []] or found
    for each in chosen:
        text = entries.fill(each, repository, archive)
        if text != each.body.text:
            write_whole(each.path, text)
            typer.echo(f"filled {each.path.name}")
    if faults and not names:
        raise Faults(faults)


@app.command()
def schema() -> None:
    """Print the JSON Schema of a record."""
    typer.echo(json.dumps(record_schema(), indent=1))


def _aside(repository: Repository, out: Path | None) -> Path:
    """Return where unpublished records go: ignored by git, inside the checkout, unless told."""
    return out or repository.root / ".warplog"


def _hex(commit: str | None) -> str | None:
    """Return a stated commit, or raise Fault for what is no commit's name."""
    if commit is not None and not re.fullmatch(r"[0-9a-f]{7,64}", commit):
        raise Fault("--commit", f"{commit!r} is no commit", "give 7 to 64 hexadecimal digits")
    return commit


def _entries(repository: Repository) -> list[Entry]:
    """Return the entries that are right; the claims of the others cannot be compared, and we say so."""
    found, faults = entries.load_all(repository)
    for fault in faults:
        typer.echo(f"note: {fault}", err=True)
    return found


def _list(repository: Repository) -> None:
    found, _ = entries.load_all(repository)
    typer.echo("What can be reproduced:")
    for artifact in repository.artifacts():
        titles = [each.title for each in found if each.artifact == artifact.slug]
        typer.echo(f"  {artifact.slug:24} {'; '.join(titles)}")


def _artifact(repository: Repository, found: list[Entry], name: str) -> Artifact:
    """Return the artifact that `name` means: its own slug, its entry's, or the file of either."""
    known = {artifact.slug: artifact for artifact in repository.artifacts()}
    stem = Path(name).name
    if name in known or (stem in known and Path(name).is_dir()):
        return known[stem]
    return known[_entry(name, found, [], repository).artifact]


def _entry(name: str, found: list[Entry], faults: list[Fault], repository: Repository) -> Entry:
    """Return the entry that `name` means, by slug or file, or raise what is wrong with it."""
    stem = Path(name).name
    for each in found:
        if stem in (each.slug, each.path.name, each.path.stem):
            return each
    own = [fault for fault in faults if stem in fault.place]
    if own:
        raise Faults(own)
    known = ", ".join(artifact.slug for artifact in repository.artifacts()) or "none yet"
    raise Fault("warplog", f"no entry or artifact is called {name!r}", f"use one of: {known}")


class Stopped(BaseException):
    """A signal asked this command to end; everything on the way out cleans up after itself."""


def _stop(_signal: int, _frame: object) -> None:
    raise Stopped


def main() -> None:
    """Run the command line; print what a person can mend without a traceback."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except (Fault, Faults) as fault:
        _end(str(fault), 2 if isinstance(fault, Fault) else 1)
    except Stopped:
        _end("stopped; no published record was changed", 130)
    except OSError as error:
        _end(f"warplog: {error}; {remedy_of(error)}", 2)


def _end(words: str, status: int) -> NoReturn:
    """Say `words` where errors are read, and end; where even that cannot be written, just end."""
    with contextlib.suppress(OSError):
        typer.echo(words, err=True)
    sys.exit(status)
