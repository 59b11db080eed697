"""The command `draft`: from the transcript of an agent's session to a draft entry bound to an artifact.

The rule kept here: all is written or nothing, nothing that exists is touched, and what is said of what was
removed is its kind and how often.
"""

import os
import re
import shutil
import tempfile
from collections import Counter
from datetime import date, datetime
from pathlib import Path
from typing import Annotated

import typer

from warplog.conversation import Conversation
from warplog.draft import Head, composed, plain_title, publishable
from warplog.fault import Fault
from warplog.gleaning import Gleaned, glean
from warplog.markup import measured_numbers
from warplog.menu import command
from warplog.scaffold import Beginning, begin, check_name, check_slug, slug_of
from warplog.source import Repository
from warplog.store import write_whole
from warplog.transcript import Transcript

_FALLBACK = "What a coding session tried"
_TAGS = "agent"
_DEVICE = "nvidia-h200"
_YEARS = (2022, 2099)  # before, no agent wrote a transcript
_ARTIFACT = re.compile(r"(?:^|[\\/])artifacts[\\/]([a-z0-9-]+)[\\/]")
_PLAIN_TYPE = re.compile(r"[a-z][a-z_.-]{0,40}\Z")

File = Annotated[Path, typer.Argument(help="The session's file: JSON lines.")]
Title = Annotated[str | None, typer.Option(help="The entry's title; the session's, if left out.")]
Slug = Annotated[str | None, typer.Option(help="Its name in addresses; made of the title.")]
Of = Annotated[
    str | None,
    typer.Option("--artifact", help="What it is about; else the one edited most, else a new one."),
]
Device = Annotated[str | None, typer.Option(help="The GPU whose numbers the story tells.")]
Tags = Annotated[str, typer.Option(help="Words to find it by, with commas between them.")]


def draft(
    transcript: File,
    *,
    title: Title = None,
    slug: Slug = None,
    artifact: Of = None,
    device: Device = None,
    tags: Tags = _TAGS,
) -> None:
    """Write a draft entry from a Claude Code or Codex session, without secrets and private traces."""
    repository = Repository.find(Path.cwd())
    found = glean(Transcript(transcript))
    if not found.conversation.happened:
        problem = "holds no record of a session that is known here"
        raise Fault(str(transcript), problem, "name a transcript of Claude Code or Codex")
    title = _title(title, found)
    slug = slug or slug_of(title) or "session"
    check_name(slug, repository)
    subject = artifact or _edited(found.conversation, repository)
    known = subject or (slug if (repository.root / "artifacts" / slug).is_dir() else None)
    if known is not None:
        repository.artifact(known)
    words = tuple(word.strip() for word in tags.split(",") if word.strip())
    day = _day(found.last)
    head = Head(title, day.isoformat(), known or slug, device or _device(repository, known), words)
    path = repository.root / "entries" / f"{day.isoformat()}-{slug}.md"
    text = publishable(_cleaned_again(composed(head, found), found), path)
    written = _write(repository, head, slug, text, path, new=known is None)
    _tell(found, [each.relative_to(repository.root).as_posix() for each in written], head)


def _cleaned_again(text: str, found: Gleaned) -> str:
    """Return the text of an entry with its narrative cleaned once more, as a whole."""
    front, mark, body = text.partition("\n---\n")
    return front + mark + found.redactor.clean(body)


def _title(given: str | None, found: Gleaned) -> str:
    """Return the title that was given, else the session's, else the first line of what was asked."""
    if given is not None:
        for _, number in measured_numbers(given):
            remedy = "say it without a measured number, which would not follow the record"
            raise Fault("--title", f"holds the number {number!r}", remedy)
        return found.redactor.clean(given)
    asked = found.conversation.notes("asked")
    said = [found.conversation.title, *(note.text for note in asked[:1])]
    return next(filter(None, map(plain_title, said)), _FALLBACK)


def _edited(session: Conversation, repository: Repository) -> str | None:
    """Return the artifact of this repository that the session edited most often, if any."""
    counts: Counter[str] = Counter()
    known = {artifact.slug for artifact in repository.artifacts()}
    for name, count in session.files.items():
        match = _ARTIFACT.search(name)
        if match and match[1] in known:
            counts[match[1]] += count
    return counts.most_common(1)[0][0] if counts else None


def _day(last: str) -> date:
    """Return the day of the session's last event, or today where it says no day that a session had."""
    today = datetime.now().astimezone().date()
    try:
        day = date.fromisoformat(last[:10])
    except ValueError:
        return today
    return day if _YEARS[0] <= day.year <= _YEARS[1] else today


def _device(repository: Repository, artifact: str | None) -> str:
    """Return the device that the artifact has records of, or the usual one."""
    records = repository.root / "artifacts" / (artifact or "") / "records"
    devices = (
        sorted(each.name for each in records.iterdir() if each.is_dir()) if records.is_dir() else []
    )
    return devices[0] if artifact and devices else _DEVICE


def _write(
    repository: Repository, head: Head, slug: str, text: str, path: Path, *, new: bool
) -> list[Path]:
    """Write the entry, and the artifact where it is a new one; return the files. All or nothing."""
    if not new:
        taken = sorted(path.parent.glob(f"????-??-??-{slug}.md"))
        if taken:
            problem = f"{slug!r} is taken by entries/{taken[0].name}"
            raise Fault("--slug", problem, "choose another with --slug")
        _add(path, text)
        return [path]
    check_slug(slug, repository)
    start = Beginning(head.title, slug, head.device, head.tags)
    files = begin(repository, start, date.fromisoformat(head.day))
    try:
        write_whole(path, text)
    except BaseException:
        path.unlink(missing_ok=True)
        shutil.rmtree(repository.root / "artifacts" / slug, ignore_errors=True)
        raise
    return files


def _add(path: Path, text: str) -> None:
    """Write a new file whole; raise Fault where one has that name by now."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        os.link(name, path)
    except FileExistsError:
        raise Fault(f"entries/{path.name}", "is there already", "choose another --slug") from None
    finally:
        Path(name).unlink(missing_ok=True)


def _tell(found: Gleaned, written: list[str], head: Head) -> None:
    """Say what was read, found, removed and written; never a value."""
    session, books = found.conversation, found.books
    for line in (
        f"read {books.lines} lines: {len(session.notes('asked'))} asks, {len(session.steps)} tool calls",
        (
            f"found {len(session.commands)} commands that ran, {len(session.files)} files edited, "
            f"{sum(map(len, found.numbers.values())) + found.more_numbers} numbers with units"
        ),
        f"passed over: {_passed_over(found)}",
        f"removed: {_listed(found.removed) or 'nothing'}",
        *(f"wrote {name}" for name in written),
    ):
        typer.echo(line)
    typer.echo(
        "Next: read the draft once as a stranger would; what was removed is what is known to be"
    )
    measure = command("reproduce", head.artifact)
    typer.echo(f"private, not all that may be. Then measure: {measure}")


def _passed_over(found: Gleaned) -> str:
    books = found.books
    unknown: Counter[str] = Counter()
    for kind, count in books.unknown.items():
        plain = _PLAIN_TYPE.match(kind) and found.redactor.clean(kind) == kind
        unknown[kind if plain else "(no plain name)"] += count
    parts = (
        [f"{sum(unknown.values())} records of unknown types ({_listed(unknown)})"]
        if unknown
        else []
    )
    parts += [f"{books.broken} broken lines"] if books.broken else []
    parts += [f"{books.too_long} lines over 64 MiB"] if books.too_long else []
    return ", ".join(parts) or "nothing"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in counts.most_common())
