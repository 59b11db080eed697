"""From a transcript to what a draft may tell: a clean conversation and the numbers that commands printed.

The rule kept here: the transcript is read twice, first all of it to learn what must not be told, then to
tell; each text is cleaned whole before it is shortened, so that no half of a secret is left.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from warplog.conversation import About, Call, Conversation, Event, Note, Result, assembled
from warplog.printed import Number, numbers
from warplog.redaction import Redactor
from warplog.trace import HOST, USER
from warplog.transcript import Books, Transcript, texts

_ASKS_NAME = re.compile(
    r"\s*(?:(?P<user>whoami|id -un|echo \"?\$USER\"?)"
    r"|(?:hostname(?: -\w+)?|uname -n|echo \"?\$HOSTNAME\"?))\s*(?:[;&|\n]|\Z)"
)
_ONE_WORD = re.compile(r"[\w.-]+\Z")
OUTPUT_LINES, NOTE_CHARACTERS, COMMAND_CHARACTERS, WIDTH = 24, 600, 600, 200
NUMBERS_A_COMMAND = 12


@dataclass
class Gleaned:
    """What a transcript comes to. `numbers` are by the id of the call that printed them.

    `removed` counts what was taken out, by kind; `last` is the time of the last event, or empty.
    """

    conversation: Conversation
    redactor: Redactor
    books: Books
    numbers: dict[str, list[Number]] = field(default_factory=dict)
    more_numbers: int = 0
    last: str = ""

    @property
    def removed(self) -> Counter[str]:
        """How many places were cleaned, by kind."""
        return self.redactor.counts


def glean(transcript: Transcript) -> Gleaned:
    """Read a transcript twice and return what may be told. Raises Fault where it cannot be read."""
    redactor = Redactor()
    _learn(transcript, redactor)
    found = Gleaned(Conversation(), redactor, Books())
    found.conversation = assembled(_clean(transcript, found))
    found.books = transcript.books
    return found


def _learn(transcript: Transcript, redactor: Redactor) -> None:
    """Teach `redactor` all that the transcript holds, what it does not tell included."""
    asked: dict[str, str] = {}
    for record in transcript.records():
        for text in texts(record):
            redactor.learn(text)
        for event in transcript.told(record):
            _names(event, asked, redactor)


def _names(event: Event, asked: dict[str, str], redactor: Redactor) -> None:
    """Learn the folder of the session, and the names that `hostname` and `whoami` answered."""
    match event:
        case About(folder=folder) if folder:
            redactor.folder(folder)
        case Call() if event.command and (found := _ASKS_NAME.match(event.command)):
            asked[event.id] = USER if found["user"] else HOST
        case Result() if event.id in asked:
            word = event.output.strip().partition("\n")[0].strip()
            if _ONE_WORD.match(word):
                redactor.name(word, asked[event.id])


def _clean(transcript: Transcript, found: Gleaned) -> Iterator[Event]:
    """Yield the events of a transcript, cleaned and then short; note numbers and the last time."""
    for event in transcript.events():
        found.last = max(found.last, _time(getattr(event, "when", "")))
        match event:
            case Note():
                text = shortened(found.redactor.clean(event.text), NOTE_CHARACTERS)
                yield msgspec.structs.replace(event, text=text, when=_time(event.when))
            case Call():
                yield _cleaned_call(event, found.redactor)
            case Result():
                output = found.redactor.clean(event.output)
                _note_numbers(event.id, output, found)
                yield msgspec.structs.replace(event, output=clipped(output))
            case About(title=title) if title:
                yield About(title=found.redactor.clean(title))


def _cleaned_call(call: Call, redactor: Redactor) -> Call:
    command = shortened(redactor.clean(call.command), COMMAND_CHARACTERS)
    files = tuple(map(redactor.clean, call.files))
    tool = redactor.clean(call.tool)[:40]
    return Call(call.id, tool, _time(call.when), command, files)


def _note_numbers(name: str, output: str, found: Gleaned) -> None:
    printed = list(numbers(output))
    if printed and name not in found.numbers:
        found.numbers[name] = printed[:NUMBERS_A_COMMAND]
        found.more_numbers += max(0, len(printed) - NUMBERS_A_COMMAND)


def shortened(text: str, most: int) -> str:
    """Return the first `most` characters of a text, and say so where there are more."""
    text = text.strip()
    return text if len(text) <= most else text[:most].rstrip() + " …"


def clipped(output: str) -> str:
    """Return the first and the last lines of an output, none too wide, and how many are left out."""
    lines = [line.rstrip() for line in output.strip("\n").split("\n")]
    lines = [line if len(line) <= WIDTH else line[:WIDTH] + " …" for line in lines]
    if len(lines) > OUTPUT_LINES:
        half = OUTPUT_LINES // 2
        left = len(lines) - 2 * half
        lines = [*lines[:half], f"… {left} lines left out …", *lines[-half:]]
    return "\n".join(lines)


def _time(when: Any) -> str:
    """Return a time as the transcript has it, ``2026-11-30T10:15:00``, or nothing for another form."""
    found = re.match(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}", when if isinstance(when, str) else "")
    return found[0] if found else ""
