"""What publication asks of an entry beyond being well formed: tested claims, causes, words of its own.

The rule kept here: what ends the check of a published entry is a note on a draft, in the same words, so that
an author sees all that is left to do and is stopped by none of it.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from warplog.claim import Verdict
from warplog.entry import Entry
from warplog.evidence import Archive, Evidence, Known
from warplog.fault import Fault
from warplog.menu import command
from warplog.output import plain_text
from warplog.scaffold import TEMPLATE
from warplog.source import Artifact, Change, file_digest

_REASON_AT_MOST = 160
_CONTRARY = {Verdict.SUPPORTED, Verdict.REFUTED}
_LINE_AT_MOST = 60
_NAMED_AT_MOST = 6
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)]) ")
_TWO_SENTENCES = re.compile(r"\w[.?!] [A-Z]\w")
_PLACEHOLDER = re.compile(r"^[ \t]*To write:", re.MULTILINE)


def unmet(entry: Entry, known: Known) -> Iterator[Fault]:
    """Yield what stands between an entry that is right and its publication, stale records aside."""
    evidence = known.devices.get(entry.device)
    yield from _untested(entry, evidence)
    yield from _unexplained(entry, evidence)
    yield from _placeholders(entry)
    yield from _crowded(entry)
    yield from _template(known.artifact)


def stale(known: Known, archive: Archive) -> Iterator[Fault]:
    """Yield a fault for each device whose newest record was measured from other source than this."""
    for evidence in known.devices.values():
        if not evidence.fresh:
            place = evidence.path.relative_to(archive.repository.root).as_posix()
            remedy = _measure(known.artifact.slug, evidence.record.device)
            if set(evidence.changed.values()) == {Change.ADDED}:
                remedy = f"take out what is no part of the artifact, or {remedy}"
            yield Fault(place, evidence.stale_reason, remedy)


def only_drafts(entries: Sequence[Entry]) -> set[str]:
    """Return the artifacts that drafts tell of and no other entry does."""
    return {each.artifact for each in entries if each.draft} - {
        each.artifact for each in entries if not each.draft
    }


def notes(entries: Sequence[Entry], archive: Archive) -> Iterator[Fault]:
    """Yield, draft by draft, what still stands between it and publication, or that nothing does."""
    hidden = only_drafts(entries)
    for entry in entries:
        if not entry.draft:
            continue
        known = archive.of(entry.artifact)
        found = [*(stale(known, archive) if entry.artifact in hidden else ())]
        found += _summed(entry, known) if not known.devices.get(entry.device) else []
        found += [each for each in unmet(entry, known) if each.problem not in _no_record(entry)]
        for each in found:
            yield Fault(each.place, f"draft: {each.problem}", each.remedy)
        if not found:
            problem = "draft: nothing stands between it and publication"
            yield entry.front.fault(problem, "remove `draft: true` to publish it", "draft")


def disputes(entries: Sequence[Entry], archive: Archive) -> Iterator[Fault]:
    """Yield, entry by entry, each record of another device that says the contrary of what is published."""
    for entry in entries:
        known = archive.of(entry.artifact)
        own = known.devices.get(entry.device)
        if own is None or entry.draft:
            continue
        published = {name: own.judge(claim).verdict for name, claim in entry.claims.items()}
        for other in known.devices.values():
            against = [
                name
                for name, claim in entry.claims.items()
                if {published[name], other.judge(claim).verdict} == _CONTRARY
            ]
            if against:
                place = other.path.relative_to(archive.repository.root).as_posix()
                many = f"{len(against)} of {len(published)} claims of {entry.place}"
                remedy = "its page shows both; say why in the entry, where you know"
                yield Fault(place, f"disputes {many}: {_listed(against)}", remedy)


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED_AT_MOST
    return ", ".join(names[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")


def counted(entries: Sequence[Entry]) -> str:
    """Say how many entries and claims there are, all as their records say, and how many are in draft."""
    drafts = sum(each.draft for each in entries)
    claims = sum(len(each.claims) for each in entries if not each.draft)
    more = f"; {drafts} in draft: see the notes" if drafts else ""
    return f"{len(entries) - drafts} entries, {claims} claims: all as recorded{more}"


def _measure(slug: str, device: str) -> str:
    return f"run `{command('reproduce', slug, '--publish')}` on {device}"


def _no_record(entry: Entry) -> dict[str, str]:
    """Return, by the words of its fault, each claim that has no record to be tested by."""
    why = f"there is no record of {entry.device}"
    return {f"claim {name!r}: untested: {why}": name for name in entry.claims}


def _summed(entry: Entry, known: Known) -> list[Fault]:
    """Return one fault for all claims of an entry whose device has no record yet."""
    count = len(entry.claims)
    claims = "1 claim is" if count == 1 else f"{count} claims are"
    problem = f"no record of {entry.device}, so its {claims} untested"
    return [entry.front.fault(problem, _measure(known.artifact.slug, entry.device), "claims")]


def _untested(entry: Entry, evidence: Evidence | None) -> Iterator[Fault]:
    if evidence is not None and not evidence.fresh:
        return  # one fault for the stale record says it for all
    remedy = _measure(entry.artifact, entry.device)
    for name, claim in entry.claims.items():
        if evidence is None:
            reason = f"there is no record of {entry.device}"
        else:
            judgement = evidence.judge(claim)
            if judgement.verdict is not Verdict.UNTESTED:
                continue
            reason = plain_text(judgement.reason).partition("\n")[0][:_REASON_AT_MOST]
        yield entry.front.fault(f"claim {name!r}: untested: {reason}", remedy, "claims", name)


def _unexplained(entry: Entry, evidence: Evidence | None) -> Iterator[Fault]:
    """Yield a fault for each reported claim that is refuted on the entry's device without a cause."""
    for name, claim in entry.claims.items():
        if evidence is None or claim.reported is None or claim.cause is not None:
            continue
        if evidence.judge(claim).verdict is Verdict.REFUTED:
            problem = f"claim {name!r}: refuted without a cause"
            yield entry.front.fault(problem, "add `cause:` with one line", "claims", name)


def _placeholders(entry: Entry) -> Iterator[Fault]:
    """Yield a fault for text of the template that waits for the author's own."""
    remedy = "write it, or remove the line"
    if _PLACEHOLDER.match(entry.summary):
        yield entry.front.fault("summary: placeholder text left", remedy, "summary")
    found = [match.start() for match in _PLACEHOLDER.finditer(entry.body.prose, entry.body.start)]
    if found:
        lines = "1 line begins" if len(found) == 1 else f"{len(found)} lines begin"
        problem = f"placeholder text left: {lines} with `To write:`"
        yield Fault(entry.at(found[0]), problem, remedy)


def _crowded(entry: Entry) -> Iterator[Fault]:
    """Yield a fault for each line of a paragraph that holds more than one sentence."""
    for offset, line in crowded(entry.body.prose, entry.body.start):
        problem = f"more than one sentence in the line {line.strip()[:_LINE_AT_MOST]!r}"
        yield Fault(entry.at(offset), problem, "put each sentence on a line of its own")


def crowded(prose: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the offset and the text of each line of a paragraph, from `start` on, that holds more than one
    sentence; tables and list items may.
    """
    in_item, after_blank, offset = False, True, start
    for line in prose[start:].splitlines(keepends=True):
        if _ITEM.match(line):
            in_item = True
        elif line.strip() and not line.startswith((" ", "\t")) and after_blank:
            in_item = False
        after_blank = not line.strip()
        if not in_item and not line.startswith("|") and _TWO_SENTENCES.search(line):
            yield offset, line.rstrip()
        offset += len(line)


def _template(artifact: Artifact) -> Iterator[Fault]:
    """Yield a fault where the kernel is still the one that a new entry starts with."""
    kernel = artifact.folder / "kernel.py"
    if kernel.is_file() and file_digest(kernel) == _example():
        place = f"artifacts/{artifact.slug}/kernel.py"
        yield Fault(place, "is still the template's kernel", "put the kernel under test there")


@cache
def _example() -> str:
    return file_digest(TEMPLATE / "kernel.py")
