"""Checks the names that an entry uses against the names that its records hold.

The rule kept here: a wrong name is answered with the nearest right one. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from msgspec import Struct

from warplog.quantity import DERIVED, Quantity, filed, matches
from warplog.record import Measurement, Record
from warplog.workload import spell

_SHOWN = 8


class Problem(Struct, frozen=True):
    """What is wrong with the value of `key`, and what to do about it."""

    key: str
    problem: str
    remedy: str


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a remedy that names the known names closest to `name`, or all where none is close."""
    names = sorted(set(known))
    close = get_close_matches(name, names, n=2, cutoff=0.6) or [
        each for each in names if each.startswith(name) or (each and name.startswith(each))
    ]
    if close:
        return "use " + " or ".join(close)
    if not names:
        return "there is none to name yet"
    more = ", ..." if len(names) > _SHOWN else ""
    return "use one of: " + ", ".join(names[:_SHOWN]) + more


def problems(quantity: Quantity, records: Sequence[Record]) -> Iterator[Problem]:
    """Yield what `quantity` names that no record holds; nothing can be said without a record."""
    if not records:
        return
    found = [filed(record) for record in records]
    subjects = {subject for each in found for _, subject in each}
    for key, name in (("subject", quantity.subject), ("over", quantity.over)):
        if name is not None and name not in subjects:
            yield Problem(key, f"no subject {name!r}", nearest(name, subjects))
    metrics = {metric for each in found for metric, _ in each}
    if quantity.metric not in metrics | DERIVED.keys():
        remedy = nearest(quantity.metric, metrics | DERIVED.keys())
        yield Problem("metric", f"no metric {quantity.metric!r}", remedy)
    elif quantity.subject in subjects:
        own = [
            measurement
            for each in found
            for (_, subject), measurements in each.items()
            if subject == quantity.subject
            for measurement in measurements
        ]
        yield from _combination(quantity, own)


def _combination(quantity: Quantity, of_subject: list[Measurement]) -> Iterator[Problem]:
    """Yield what is wrong with the metric or the workload of a subject that exists.

    A subject that failed has no numbers: that makes a claim untested and is no wrong name.
    """
    metric = "latency" if quantity.metric in DERIVED else quantity.metric
    found = [each for each in of_subject if each.metric == metric or each.failed is not None]
    if not found:
        remedy = nearest(metric, {each.metric for each in of_subject})
        yield Problem("metric", f"no {metric} of {quantity.subject!r} was measured", remedy)
        return
    if any(matches(each, quantity) for each in found):
        return
    sizes = {key for each in found for key in each.workload}
    for key in quantity.workload.keys() - sizes:
        yield Problem("workload", f"no size {key!r}", nearest(key, sizes))
        return
    asked = spell(quantity.workload)
    options = list(dict.fromkeys(spell(each.workload) for each in found))
    yield Problem("workload", f"no workload {asked!r} was measured", nearest(asked, options))
