"""Removes secrets and private traces from texts, and counts what it removed by kind.

The rule kept here: what was once seen as a secret is removed wherever and however it is spelled; nothing
is shortened before it is cleaned; and of what is removed only the kind is ever said.
"""

import base64
import getpass
import platform
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from warplog.secret import KINDS, Span, secrets
from warplog.spelling import Spelled, joined, seen
from warplog.trace import (
    EMAIL,
    HARDWARE,
    HOME,
    HOST,
    NETWORK,
    PLACE,
    USER,
    is_private,
    traces,
)

FOLDER = "working folder"
_SHOWN = {HOME: "~", PLACE: "…/", FOLDER: ""}
_LEAST_ANYWHERE, _MOST_REMEMBERED, _LEAST_WORD = 8, 4096, 4
_DEEP = 2
_LOGIN = re.compile(
    r"(?:[a-z][\w+.-]*://)?[^\s:@]{0,60}:(?P<password>[^\s@]{4,}|\S{4,}(?=@))"
    r"(?:@(?P<host>[\w.-]+)(?::\d+)?[^@\s]*)?\Z"
)
_NOTHING = re.compile(r"(?!)")
_REMOVED = re.compile(r"\(removed: (?P<kind>[^()\n]*)\)")
_OWN_KINDS = KINDS | {HOME, PLACE, HOST, USER, EMAIL, NETWORK, HARDWARE, FOLDER}


class Redactor:
    """What a session holds that must not be told. First `learn` all of its texts, then `clean` each.

    `counts` says how many places were cleaned, by kind.
    """

    def __init__(self) -> None:
        """Know this machine's and this user's names from the start."""
        self.counts: Counter[str] = Counter()
        self._values: dict[str, str] = {}
        self._words: dict[str, str] = {}
        self._folders: set[str] = set()
        self._patterns: tuple[re.Pattern[str], ...] | None = None
        for name, kind in (
            (getpass.getuser, USER),
            (lambda: Path.home().name, USER),
            (platform.node, HOST),
        ):
            with suppress(KeyError, OSError, RuntimeError, ImportError):
                self.name(name(), kind)

    def learn(self, text: str) -> None:
        """Remember every secret and every private name in `text`."""
        for reading, _ in Spelled(seen(text)).readings():
            for span in secrets(reading):
                self._remember_all(reading[span.start : span.end], span.kind)
            for trace in traces(reading):
                if trace.kind in (HOST, USER):
                    self.name(trace.word, trace.kind)
                elif trace.word:
                    self._remember(trace.word, trace.kind)

    def name(self, word: str, kind: str) -> None:
        """Remember a user's or a host's name, which is private wherever it stands as a word."""
        for each in (word, word.partition(".")[0]) if kind == HOST else (word,):
            if is_private(each):
                self._words.setdefault(each.lower(), kind)
                self._patterns = None

    def folder(self, path: str) -> None:
        """Remember a folder that the session worked in: paths below it are told from there."""
        if len(re.findall(r"[\\/][^\\/]+", path)) >= _DEEP:
            self._folders.add(path.rstrip("\\/"))
            self._patterns = None

    def clean(self, text: str) -> str:
        """Return `text` without anything that is known or can be found, each replaced by its kind."""
        text = self._without_folders(seen(text))
        spelled = Spelled(text)
        kept = list(self._marks(text))
        pieces, done = [], 0
        for span in _merged([*self._found(spelled), *self._known(spelled)], kept):
            self.counts[span.kind] += 1
            shown = _SHOWN.get(span.kind, f"(removed: {span.kind})")
            pieces += [text[done : span.start], shown]
            done = span.end
        return "".join([*pieces, text[done:]])

    def _marks(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield each place where something was removed already; what only looks so may hold a secret."""
        for match in _REMOVED.finditer(text):
            if match["kind"] in _OWN_KINDS or match["kind"] in self.counts:
                yield match.span()

    def _remember_all(self, value: str, kind: str) -> None:
        """Remember a value, the password in it where it is ``user:password@host``, and that host."""
        self._remember(value, kind)
        parts = _LOGIN.match(value) or _LOGIN.match(_decoded(value))
        if parts:
            self._remember(parts["password"], kind)
            if parts["host"]:
                self.name(parts["host"], HOST)

    def _remember(self, value: str, kind: str) -> None:
        value = joined(value)
        if _LEAST_WORD <= len(value) <= _MOST_REMEMBERED and not any(self._marks(value)):
            self._values.setdefault(value, kind)
            self._patterns = None

    def _without_folders(self, text: str) -> str:
        for path in sorted(self._folders, key=len, reverse=True):
            pattern = r"[\\/]+".join(re.escape(part) for part in re.split(r"[\\/]+", path))
            text, inside = re.subn(rf"(?<![\w.-]){pattern}[\\/]+(?=[\w.])", "", text)
            text, bare = re.subn(rf"(?<![\w.-]){pattern}(?![\w.-])", ".", text)
            if inside + bare:
                self.counts[FOLDER] += inside + bare
        return text

    def _found(self, spelled: Spelled) -> Iterator[Span]:
        """Yield what can be found in the text as it stands, and in it as it was meant."""
        for reading, place in spelled.readings():
            private = [Span(each.start, each.end, each.kind) for each in traces(reading)]
            for each in (*secrets(reading), *private):
                yield Span(*place(each.start, each.end), each.kind)

    def _known(self, spelled: Spelled) -> Iterator[Span]:
        """Yield every place of a value or a word that was learnt."""
        anywhere, apart, words = self._patterns = self._patterns or self._compiled()
        if anywhere is not _NOTHING:
            for match in anywhere.finditer(spelled.joined.text):
                yield Span(*spelled.joined_span(*match.span()), self._values[match[0]])
        for match in apart.finditer(spelled.text):
            yield Span(*match.span(), self._values[match[0]])
        for match in words.finditer(spelled.text):
            yield Span(*match.span(), self._words[match[0].lower()])

    def _compiled(self) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
        long = [value for value in self._values if len(value) >= _LEAST_ANYWHERE]
        short = [value for value in self._values if len(value) < _LEAST_ANYWHERE]
        return (
            _any_of(long, "", ""),
            _any_of(short, r"(?<!\w)", r"(?!\w)"),
            _any_of(self._words, r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])", re.IGNORECASE),
        )


def _decoded(value: str) -> str:
    """Return what a value in Base64 stands for, as a header of HTTP has it; nothing for any other."""
    try:
        return base64.b64decode(value, validate=True).decode("ascii")
    except ValueError:
        return ""


def _any_of(values: Iterable[str], before: str, after: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern for any of `values`, the longest first; it matches nothing where there is none."""
    names = sorted(values, key=len, reverse=True)
    words = "|".join(map(re.escape, names))
    return re.compile(f"{before}(?:{words}){after}", flags) if words else _NOTHING


def _merged(spans: list[Span], kept: list[tuple[int, int]]) -> Iterator[Span]:
    """Yield spans in order and apart; of those that touch each other, the widest says the kind."""
    spans = [each for each in spans if each.end > each.start and not _within(each, kept)]
    last: Span | None = None
    width = 0
    for each in sorted(spans, key=lambda span: span[:2]):
        if last is None or each.start >= last.end:
            if last is not None:
                yield last
            last, width = each, each.end - each.start
            continue
        wider = each.end - each.start > width
        last = Span(last.start, max(last.end, each.end), each.kind if wider else last.kind)
        width = max(width, each.end - each.start)
    if last is not None:
        yield last


def _within(span: Span, kept: list[tuple[int, int]]) -> bool:
    return any(start <= span.start and span.end <= end for start, end in kept)
