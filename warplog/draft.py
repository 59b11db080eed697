"""Writes a draft entry of what a coding session tells. Pure, but for `publishable`, which parses it.

The rule kept here: what came from a transcript stands in fenced blocks, where it is neither prose nor HTML
nor a measured number; the prose says what is to be written, and what must be measured before it is claimed.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from warplog.body import MARKER
from warplog.conversation import Note, Step
from warplog.entry import parse
from warplog.fault import Fault, Faults
from warplog.gleaning import Gleaned, shortened
from warplog.markup import measured_numbers

STEPS_AT_MOST, COMMANDS_AT_MOST, BYTES_AT_MOST = 150, 40, 600_000
_TICKS = re.compile(r"`{3,}")
_NAME = re.compile(r"(?P<day>.{10})-(?P<slug>.*)\.md")
_LINE = 110


class Head(Struct, frozen=True):
    """The front matter of a draft: what it is called, and the artifact that it is bound to."""

    title: str
    day: str
    artifact: str
    device: str
    tags: tuple[str, ...]
    summary: str = "To write: one sentence for the index, the feed and the search."


def composed(head: Head, found: Gleaned) -> str:
    """Return the text of the entry."""
    tags = ", ".join(json.dumps(tag, ensure_ascii=False) for tag in head.tags)
    front = (
        f"---\ntitle: {_scalar(head.title)}\ndate: {head.day}\nartifact: {_scalar(head.artifact)}\n"
        f"device: {_scalar(head.device)}\ntags: [{tags}]\nsummary: {_scalar(head.summary)}\n"
        "draft: true\nclaims: {}\n---\n"
    )
    parts = [front, *_story(found), *_evidence(found), *_ending(found)]
    return "\n".join(parts)


def publishable(text: str, path: Path) -> str:
    """Return `text` where an entry at `path` may hold it, or raise Faults with what is wrong."""
    name = _NAME.fullmatch(path.name)
    faults: list[Fault] = []
    entry = parse(text, path, name, faults) if name else None
    if entry is None or faults:
        raise Faults([Fault("warplog draft", each.problem, each.remedy) for each in faults])
    return text


def plain_title(words: str) -> str:
    """Return the first line of `words` as a title, or nothing where a title cannot hold it."""
    line = next(iter(words.strip().split("\n")), "")
    line = shortened(" ".join(re.sub(r"[<>#*`_\[\]]", " ", line).split()), 80).removesuffix(" …")
    usable = line.isprintable() and "(removed:" not in line and "…" not in line
    return line if usable and not list(measured_numbers(line)) else ""


def _story(found: Gleaned) -> Iterator[str]:
    """Yield the question and what was done, in order of time."""
    asked = found.conversation.notes("asked")
    yield "To write: what this is about, in two sentences for someone who reads no further.\n"
    yield "## The question\n\nTo write: what did you want to know, and why? The session began with:\n"
    yield _fenced("text", [asked[0].text if asked else "(nobody asked for anything)"])
    yield "## What we expected\n\nTo write: your predictions and reasons; each becomes a claim above.\n"
    yield "## What we did\n\nTo write: the story. This is what the session tried, in order:\n"
    happened = found.conversation.happened
    lines = [_told(each) for each in happened if isinstance(each, Note) or _worth(each)]
    yield _fenced("text", _few(lines, STEPS_AT_MOST, "steps"))
    files = [f"{name}  ({count} edits)" for name, count in found.conversation.files.items()]
    if files:
        yield "Files that it edited:\n"
        yield _fenced("text", _few(files, STEPS_AT_MOST, "files"))


def _worth(step: Step) -> bool:
    return bool(step.call.command or step.call.files)


def _told(each: Note | Step) -> str:
    """Return one line of the timeline."""
    if isinstance(each, Note):
        return f"{each.when[11:16]:5}  {each.who:8} {_line(each.text)}"
    what = "edited" if each.call.files and not each.call.command else "ran"
    if not each.ran:
        what = "not run"
    words = each.call.command or ", ".join(each.call.files)
    return f"{each.call.when[11:16]:5}  {what:8} {_line(words)}{_outcome(each)}"


def _outcome(step: Step) -> str:
    if step.result is None:
        return "  -> no result in the transcript"
    if step.failed:
        status = step.result.status
        return f"  -> failed, status {status}" if status else "  -> failed"
    return ""


def _evidence(found: Gleaned) -> Iterator[str]:
    """Yield the numbers to bind, and the commands with what they printed."""
    yield "## What the machine said\n\nTo write: what came of each claim.\n"
    yield "### Numbers to bind\n"
    commands = found.conversation.commands
    printed = [line for step in commands for line in _numbers(step, found)]
    if printed:
        yield (
            "The session printed these; none is measured by Warplog yet.\n"
            "Have `reproduce.py` measure each that matters, make it a claim or a value in the front matter, "
            "and write `[?](#its-id)` where the story needs it.\n"
            "Then delete this list.\n"
        )
        left = found.more_numbers
        yield _fenced("text", [*printed, *([f"… and {left} more numbers"] if left else [])])
    else:
        yield "No command printed a number with a unit.\n"
    yield "### Commands that ran\n\nKeep what the story needs, and delete the rest.\n"
    order = sorted(commands, key=lambda step: step.call.id not in found.numbers)
    shown = {step.call.id for step in order[:COMMANDS_AT_MOST]}
    kept = [step for step in commands if step.call.id in shown]
    for step in kept:
        yield _fenced("console", [f"$ {step.call.command}", *_output(step)])
    if len(commands) > len(kept):
        yield f"Left out here: {len(commands) - len(kept)} more commands, none of which printed a number.\n"


def _numbers(step: Step, found: Gleaned) -> Iterator[str]:
    numbers = found.numbers.get(step.call.id)
    if numbers:
        yield f"$ {_line(step.call.command)}"
        for each in numbers:
            yield f"  {each.printed:16} {each.meant:28} | {each.line}"


def _output(step: Step) -> list[str]:
    output = step.result.output if step.result else ""
    ending = _outcome(step).removeprefix("  -> ")
    return [*([output] if output.strip() else []), *([f"({ending})"] if ending else [])]


def _ending(found: Gleaned) -> Iterator[str]:
    failed = [step for step in found.conversation.commands if step.failed]
    yield "## What did not work\n\nTo write: what failed, and which prediction was wrong.\n"
    if failed:
        yield "These commands failed:\n"
        yield _fenced("text", _few([_told(step) for step in failed], STEPS_AT_MOST, "commands"))
    yield "## What it means\n\nTo write: who should do what with this, and where it stops holding.\n"


def _line(text: str) -> str:
    return shortened(" ".join(text.split()), _LINE)


def _few(lines: Sequence[str], most: int, what: str) -> list[str]:
    """Return the first and the last of many lines, and say how many are left out."""
    if len(lines) <= most:
        return list(lines)
    half = most // 2
    return [*lines[:half], f"… {len(lines) - 2 * half} {what} left out …", *lines[-half:]]


def _fenced(info: str, lines: Sequence[str]) -> str:
    """Return a fenced block that nothing inside can end, and without what looks like a merge."""
    text = MARKER.sub(lambda match: " " + match[0], "\n".join(lines)).rstrip()
    ticks = "`" * (1 + max((len(run) for run in _TICKS.findall(text)), default=2))
    return f"{ticks}{info}\n{text}\n{ticks}\n"


def _scalar(words: str) -> str:
    return json.dumps(words, ensure_ascii=False)
