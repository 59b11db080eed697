"""What happened in a coding session, whichever agent kept its transcript: asks, words, calls, results.

The rule kept here: a command counts as run only where its result stands in the transcript too, and a file
as touched only where the edit was not refused.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

_HEREDOC = re.compile(
    r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE
)


class Note(Struct, frozen=True):
    """What a person asked, or what the assistant said."""

    who: Literal["asked", "said"]
    text: str
    when: str = ""


class Call(Struct, frozen=True):
    """A tool that the assistant used: a `command` for the shell, or an edit of `files`, or neither."""

    id: str
    tool: str
    when: str = ""
    command: str = ""
    files: tuple[str, ...] = ()


class Result(Struct, frozen=True):
    """What came of the call with that id; `status` is the exit status, where the transcript says it."""

    id: str
    output: str
    failed: bool = False
    refused: bool = False
    status: int | None = None


class About(Struct, frozen=True):
    """A fact of the session: the folder that it works in, or the title that it was given."""

    folder: str = ""
    title: str = ""


Event = Note | Call | Result | About


class Step(Struct, frozen=True):
    """A call with its result, or None where the transcript ends or was cut before it."""

    call: Call
    result: Result | None

    @property
    def ran(self) -> bool:
        """True where the call was carried out."""
        return self.result is not None and not self.result.refused

    @property
    def failed(self) -> bool:
        """True where it was carried out and failed."""
        return (
            self.result is not None
            and self.ran
            and (self.result.failed or bool(self.result.status))
        )


@dataclass
class Conversation:
    """The notes and steps of a session, in order, with its title where it has one."""

    happened: list[Note | Step] = field(default_factory=list)
    title: str = ""

    @property
    def commands(self) -> list[Step]:
        """The commands that really ran, in order."""
        return [each for each in self.steps if each.call.command and each.ran]

    @property
    def steps(self) -> list[Step]:
        """All calls, in order."""
        return [each for each in self.happened if isinstance(each, Step)]

    def notes(self, who: str) -> list[Note]:
        """Return what was `asked`, or `said`, in order."""
        return [each for each in self.happened if isinstance(each, Note) and each.who == who]

    @property
    def files(self) -> dict[str, int]:
        """How often each file was edited, in the order of first edits."""
        found: dict[str, int] = {}
        for step in self.steps:
            for name in step.call.files if step.ran and not step.failed else ():
                found[name] = found.get(name, 0) + 1
        return found


def assembled(events: Iterable[Event]) -> Conversation:
    """Return the session that `events` tell of; a result finds its call by id, the first result counts."""
    session = Conversation()
    places: dict[str, int] = {}
    for event in events:
        match event:
            case About(title=title):
                session.title = title or session.title
            case Call(id=name):
                if name not in places:
                    places[name] = len(session.happened)
                    session.happened.append(Step(event, None))
            case Result(id=name):
                index = places.get(name)
                step = session.happened[index] if index is not None else None
                if index is not None and isinstance(step, Step) and step.result is None:
                    session.happened[index] = Step(step.call, event)
            case Note():
                session.happened.append(event)
    return session


def patched(patch: str) -> tuple[str, ...]:
    """Return the files that a patch names which begins with ``*** Begin Patch``."""
    if "*** Begin Patch" not in patch:
        return ()
    return tuple(dict.fromkeys((one or other).strip() for one, other in _HEREDOC.findall(patch)))
