"""The command `new`: asks what a new entry needs, where someone is there to answer, and has it written.

The rule kept here: a flag answers a question before it is asked, every question has a default but the
title, and nothing is written before all is known.
"""

import re
import subprocess
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from warplog.entry import load_all
from warplog.fault import Fault
from warplog.menu import command
from warplog.scaffold import SUMMARY, Beginning, begin, check_slug, slug_of
from warplog.source import Repository

_DEVICE = "nvidia-h200"
_TAGS = "triton"
_ANSWERS_WITHIN = 10

Title = Annotated[str | None, typer.Argument(help="The entry's title.")]
Slug = Annotated[str | None, typer.Option(help="Its name in addresses; made of the title.")]
Tags = Annotated[str | None, typer.Option(help="Words to find it by, with commas between them.")]
Summary = Annotated[str | None, typer.Option(help="One sentence for the index and the feed.")]
Device = Annotated[
    str | None, typer.Option(help="The GPU whose numbers the story tells: nvidia-h200.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Ask nothing: what is not given is the default.")]


def new(
    title: Title = None,
    *,
    slug: Slug = None,
    tags: Tags = None,
    summary: Summary = None,
    device: Device = None,
    yes: Yes = False,
) -> None:
    """Write a draft and its artifact, which pass every check as they are, for you to change."""
    repository = Repository.find(Path.cwd())
    asks = not yes and sys.stdin.isatty() and sys.stdout.isatty()
    if title is None and not asks:
        remedy = "write it in quotes: " + command("new", '"Title"')
        raise Fault("warplog new", "there is no title", remedy)
    title = title or _asked("Title, without a measured number")
    slug = _slug(repository, slug, slug_of(title), asks=asks)
    wanted = Beginning(
        title,
        slug,
        _given(device, "GPU that you will measure on", _usual_device(repository), asks=asks),
        _words(_given(tags, "Tags, with commas between them", _TAGS, asks=asks)),
        _given(summary, "One sentence for the index", SUMMARY, asks=asks),
    )
    if asks and not typer.confirm(f"Write artifacts/{slug}/ and its entry?", default=True):
        raise Fault("warplog new", "nothing was written", "start again when you like")
    written = begin(repository, wanted, datetime.now().astimezone().date())
    _tell([path.relative_to(repository.root).as_posix() for path in written], slug)


def _tell(written: list[str], slug: str) -> None:
    """Say what was written and what comes next."""
    for name in written:
        typer.echo(f"wrote {name}")
    typer.echo("Next: put your kernel, its reference and your predictions in their places, then")
    steps = {
        command("reproduce", slug): "right at tiny sizes; measured where there is a GPU",
        command("serve"): "see the draft as you write; the published site leaves it out",
        command("check"): "what still stands between it and publication",
    }
    for typed, why in steps.items():
        typer.echo(f"  {typed:<{max(map(len, steps))}}  {why}")


def _asked(question: str, default: str | None = None) -> str:
    return str(typer.prompt(question, default=default)).strip()


def _given(value: str | None, question: str, default: str, *, asks: bool) -> str:
    """Return what a flag said, else the answer to a question, else the default."""
    if value is not None:
        return value
    return _asked(question, default) if asks else default


def _words(tags: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in tags.split(",") if word.strip()))


def _slug(repository: Repository, given: str | None, default: str, *, asks: bool) -> str:
    """Return a slug that is free; who is there to answer is asked until one is, others get the Fault."""
    while True:
        slug = _given(given, "Slug", default, asks=asks)
        try:
            check_slug(slug, repository)
        except Fault as fault:
            if not asks or given is not None:
                raise
            typer.echo(str(fault), err=True)
        else:
            return slug


def _usual_device(repository: Repository) -> str:
    """Return this machine's first GPU, else the one that most entries are about."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=_ANSWERS_WITHIN
        )
    except (OSError, subprocess.SubprocessError):
        found, _ = load_all(repository)
        devices = Counter(each.device for each in found)
        return devices.most_common(1)[0][0] if devices else _DEVICE
    first = done.stdout.strip().partition("\n")[0]
    return re.sub(r"[^a-z0-9]+", "-", first.lower()).strip("-") or _DEVICE
