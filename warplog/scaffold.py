"""A new entry and its artifact, from the files in `template/`: true, small, and right as they are.

The rule kept here: all of it is written or nothing is, nothing that exists is touched, and what is written
passes every check as a draft.
"""

import json
import re
import shutil
import tempfile
from datetime import date
from itertools import count
from pathlib import Path
from string import Template

from msgspec import Struct

from warplog.cache import FOLDER
from warplog.entry import parse
from warplog.fault import Fault, Faults
from warplog.markup import measured_numbers, slugify
from warplog.source import Repository
from warplog.store import write_whole

TEMPLATE = Path(__file__).with_name("template")
SUMMARY = "To write: one sentence for the index, the feed and the search."
SLUG_AT_MOST = 60
_SCRIPTS = ("kernel.py", "reference.py", "reproduce.py")
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_PLAIN = re.compile(r"[A-Za-z](?:[\w ()-]*[\w)])?", re.ASCII)
_OTHER_WORDS = {"true", "false", "null", "yes", "no", "on", "off"}
_RESERVED = {"shared"}
_MAKERS = ("nvidia-", "amd-", "intel-")
_NAME = re.compile(r"(?P<day>.{10})-(?P<slug>.*)\.md")


class Beginning(Struct, frozen=True):
    """What is asked of someone who starts an entry."""

    title: str
    slug: str
    device: str
    tags: tuple[str, ...]
    summary: str = SUMMARY


def slug_of(title: str) -> str:
    """Return the slug that a title suggests, whole words of it; empty where it has no plain letter."""
    words = re.sub(r"[^a-z0-9]+", "-", slugify(title)).strip("-")
    return words[: SLUG_AT_MOST + 1].rpartition("-")[0] if len(words) > SLUG_AT_MOST else words


def check_slug(slug: str, repository: Repository) -> None:
    """Raise Fault where no entry or artifact can be called `slug`, or where one is already."""
    check_name(slug, repository)
    path = _taken(slug, repository)
    if path is not None:
        where = path.relative_to(repository.root).as_posix()
        remedy = f"use --slug {_free(slug, repository)}"
        raise Fault("--slug", f"{slug!r} is taken by {where}", remedy)


def check_name(slug: str, repository: Repository) -> None:
    """Raise Fault where no entry can be called `slug`, whether or not one is."""
    if not _SLUG.fullmatch(slug) or len(slug) > SLUG_AT_MOST or slug in _RESERVED:
        close = slug_of(slug)
        usable = close and close not in _RESERVED
        if usable and _taken(close, repository):
            close = _free(close, repository)
        remedy = f"use --slug {close}" if usable else "name one with --slug: row-norm"
        rule = f"a-z, 0-9 and single hyphens, at most {SLUG_AT_MOST}"
        raise Fault("--slug", f"{slug[:80]!r} is no free name ({rule})", remedy)


def check_device(device: str) -> None:
    """Raise Fault for what is the name of no device, with the one that records would have for it."""
    if not _SLUG.fullmatch(device):
        close = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
        whole = (
            close
            if close.startswith(_MAKERS)
            else f"nvidia-geforce-{close.removeprefix('geforce-')}"
        )
        example = whole if close else "nvidia-h200"
        remedy = f"write all of the name that nvidia-smi gives, as records/ does: {example}"
        raise Fault("--device", f"{device[:80]!r} is the name of no device", remedy)


def _taken(slug: str, repository: Repository) -> Path | None:
    """Return the artifact or the entry that is called `slug` already."""
    folder = repository.root / "artifacts" / slug
    entries = [
        path
        for path in (repository.root / "entries").glob(f"*-{slug}.md")
        if (named := _NAME.fullmatch(path.name)) and named["slug"] == slug
    ]
    return next((path for path in [folder, *entries] if path.exists() or path.is_symlink()), None)


def _free(slug: str, repository: Repository) -> str:
    """Return `slug` with the first number behind it that makes it free."""
    short = slug[: SLUG_AT_MOST - 3].rstrip("-")
    return next(name for number in count(2) if not _taken(name := f"{short}-{number}", repository))


def begin(repository: Repository, wanted: Beginning, today: date) -> list[Path]:
    """Write the entry and the artifact, and return the files; all of them, or none and an exception.

    Raises Fault for a slug that cannot be or is taken, Faults for what an entry cannot hold, OSError where
    nothing can be written.
    """
    check_slug(wanted.slug, repository)
    check_device(wanted.device)
    path = repository.root / "entries" / f"{today.isoformat()}-{wanted.slug}.md"
    text = _entry(wanted, today, path)
    target = repository.root / "artifacts" / wanted.slug
    aside = repository.root / FOLDER
    aside.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=aside, prefix="new-") as folder:
        for name in _SCRIPTS:
            shutil.copyfile(TEMPLATE / name, Path(folder) / name)
        Path(folder).chmod(0o755)
        made = Path(folder).rename(target)
        try:
            write_whole(path, text)
        except BaseException:
            made.rename(folder)  # where it ends with its context
            raise
    return [path, *(target / name for name in _SCRIPTS)]


def _entry(wanted: Beginning, today: date, path: Path) -> str:
    """Return the text of the entry, or raise what is wrong with it, by the option that said so."""
    for option, words in (("title", wanted.title), ("--summary", wanted.summary)):
        for _, number in measured_numbers(words):
            remedy = "say it without a measured number, which would not follow the record"
            raise Fault(option, f"holds the number {number!r}", remedy)
    text = Template((TEMPLATE / "entry.md").read_text("utf-8")).substitute(
        title=_scalar(wanted.title),
        date=today.isoformat(),
        slug=_scalar(wanted.slug),
        device=_scalar(wanted.device),
        tags=f"[{', '.join(map(_scalar, wanted.tags))}]",
        summary=_scalar(wanted.summary),
    )
    name = _NAME.fullmatch(path.name)
    faults: list[Fault] = []
    if name is None or parse(text, path, name, faults) is None or faults:
        raise Faults([Fault("warplog new", each.problem, each.remedy) for each in faults])
    return text


def _scalar(words: str) -> str:
    """Return a text as YAML, in quotes where it could be read as something else."""
    plain = _PLAIN.fullmatch(words) and words.lower() not in _OTHER_WORDS
    return words if plain else json.dumps(words, ensure_ascii=False)
