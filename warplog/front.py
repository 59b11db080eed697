"""Reads the front matter of an entry: YAML into claims and values, or faults with their lines.

The rule kept here: everything that is wrong is found in one pass; a claim has exactly one kind of bound,
and its numbers are finite. Names are checked against the records elsewhere (`names`).
"""

import math
import re
from collections.abc import Iterator
from datetime import date
from typing import Any, TypeVar

from msgspec import Struct

from warplog.claim import Claim, Reported
from warplog.fault import Fault
from warplog.names import nearest
from warplog.passage import Passage
from warplog.quantity import Quantity
from warplog.sound import usable
from warplog.workload import parse_workload

BOUNDS = ("at_least", "at_most", "equals", "between")
SECTIONS = {"claims", "measured-values", "code", "provenance", "reproduce"}
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_Q = TypeVar("_Q", bound=Quantity)


class Front(Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of an entry's front matter, as written. A draft is checked but not published.

    `headline` is the claim or value that stands at the top of the page, the first claim by default.
    """

    title: str
    date: str
    artifact: str
    device: str
    tags: list[str]
    summary: str
    claims: dict[str, Any]
    values: dict[str, Any] = {}
    headline: str | None = None
    draft: bool = False


class Matter(Struct, frozen=True):
    """The front matter of an entry, checked as far as it can be without records."""

    front: Front
    date: date
    claims: dict[str, Claim]
    values: dict[str, Quantity]


def read_matter(passage: Passage, faults: list[Fault]) -> Matter | None:
    """Return the front matter in `passage` and add what is wrong to `faults`.

    None where even its keys cannot be read.
    """
    try:
        data = passage.load()
        front = passage.convert({} if data is None else data, Front)
    except Fault as fault:
        faults.append(fault)
        return None
    faults += _plain_texts(front, passage)
    day = _day(front.date, passage, faults)
    claims = _named(front.claims, Claim, "claim", passage, faults)
    values = _named(front.values, Quantity, "value", passage, faults)
    for name in front.claims.keys() & front.values.keys():
        twice = passage.fault(f"value {name!r}: is also a claim", "rename one", "values", name)
        faults.append(twice)
    ids = [*front.claims, *front.values]
    if front.headline is not None and front.headline not in ids:
        problem = f"headline: no claim or value {front.headline[:80]!r}"
        faults.append(passage.fault(problem, nearest(front.headline, ids), "headline"))
    return Matter(front, day, claims, values)


def _plain_texts(front: Front, passage: Passage) -> Iterator[Fault]:
    """Yield a fault for a title, summary or tag that is empty or could be taken for HTML."""
    fields = [("title", front.title), ("summary", front.summary), ("device", front.device)]
    for key, value in [*fields, *(("tags", tag) for tag in front.tags)]:
        if not value.strip():
            yield passage.fault(f"{key}: is empty", "write it", key)
        elif not value.isprintable() or set(value) & {"<", ">"}:
            remedy = "use plain text without <, > and line breaks"
            yield passage.fault(f"{key}: {value[:80]!r} is no plain text", remedy, key)
    if front.device.strip() and not _ID.match(front.device):
        problem = f"device: {front.device[:80]!r} is the name of no device"
        yield passage.fault(problem, "write it as records/ does: nvidia-h200", "device")


def _day(value: str, passage: Passage, faults: list[Fault]) -> date:
    try:
        return date.fromisoformat(value if _DATE.match(value) else "")
    except ValueError:
        faults.append(passage.fault(f"date: {value[:80]!r} is no date", "write YYYY-MM-DD", "date"))
        return date.min


def _named(
    data: dict[str, Any], kind: type[_Q], word: str, passage: Passage, faults: list[Fault]
) -> dict[str, _Q]:
    """Return the claims or the values that are right, by id; add a fault for each other."""
    found = {}
    for name, value in data.items():
        part = passage.at(f"{word} {str(name)[:80]!r}: ", f"{word}s", str(name))
        try:
            quantity = part.convert(_spread(value, part), kind)
            _check_id(name, part)
            _check_quantity(quantity, part)
            if isinstance(quantity, Claim):
                _check_bounds(quantity, part)
        except Fault as fault:
            faults.append(fault)
        else:
            found[name] = quantity
    return found


def _spread(value: Any, part: Passage) -> Any:
    """Return `value` with its workload ``batch=31 length=4096`` spread into a dictionary."""
    if not isinstance(value, dict) or "workload" not in value:
        return value
    remedy = "write names and sizes: batch=31 length=4096"
    if not isinstance(value["workload"], str):
        raise part.fault("workload: is not text", remedy, "workload")
    try:
        return value | {"workload": parse_workload(value["workload"])}
    except ValueError as error:
        raise part.fault(f"workload: {error}", remedy, "workload") from None


def _check_id(name: str, part: Passage) -> None:
    if not _ID.match(name):
        raise part.fault("the id is no anchor", "use a-z, 0-9 and single hyphens")
    if name in SECTIONS:
        raise part.fault("the id is that of a section of the page", "choose another id")


def _check_quantity(quantity: Quantity, part: Passage) -> None:
    if quantity.metric == "speedup" and quantity.over is None:
        raise part.fault("speedup over what?", "add `over:` with a subject", "metric")
    if quantity.metric != "speedup" and quantity.over is not None:
        problem = f"{quantity.metric} is not over anything"
        raise part.fault(problem, "write `metric: speedup`, or remove `over:`", "over")


def _check_bounds(claim: Claim, part: Passage) -> None:
    given = [key for key in BOUNDS if getattr(claim, key) is not None]
    if len(given) != 1:
        problem = f"has the bounds {' and '.join(given)}" if given else "has no bound"
        remedy = "give exactly one of at_least, at_most, equals, between: [low, high]"
        raise part.fault(problem, remedy, *given[-1:])
    bounds = claim.bounds
    ends = [end for end in (bounds.low, bounds.high) if end not in (-math.inf, math.inf)]
    key = given[0]
    if len(ends) != (1 if key in ("at_least", "at_most") else 2) or any(map(math.isnan, ends)):
        raise part.fault(f"{key}: is not finite", "write a plain number in SI units", key)
    if bounds.low > bounds.high:
        raise part.fault(f"{key}: the low end is above the high end", "swap them", key)
    if not claim.says.strip():
        raise part.fault("says: is empty", "write one falsifiable sentence", "says")
    if claim.cause is not None and not claim.cause.strip():
        raise part.fault("cause: is empty", "say in a line why it did not hold", "cause")
    if claim.reported is not None:
        _check_reported(claim.reported, part)


def _check_reported(reported: Reported, part: Passage) -> None:
    if not usable(reported.value):
        raise part.fault("value: is not finite", "write the number or words", "reported", "value")
    if reported.url is not None and not reported.url.startswith(("https://", "http://")):
        problem = f"url: {reported.url[:80]!r} is no address"
        raise part.fault(problem, "write it with https://", "reported", "url")
