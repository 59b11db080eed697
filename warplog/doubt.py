"""Doubts the names that an entry uses where a try at tiny sizes is all there is, before a GPU is paid for.

The rule kept here: a try measures less than a GPU does, so a name is doubted only where the scripts do not
spell it either, and a size only where the script said which it takes on a GPU. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from msgspec import Struct

from warplog.names import nearest
from warplog.quantity import AA_METRIC, UNITS, Quantity
from warplog.record import Measurement, Record, Scalar
from warplog.script import constants, keywords, parsed
from warplog.workload import plain

_ALIKE = 0.75
_WORD = re.compile(r"[^\W\d_]+")

Columns = list[set[Scalar]]


class Offered(Struct, frozen=True):
    """What a script gave `run.sizes`, size by size: those of a GPU and the tiny ones; None where they are
    more than numbers and words.
    """

    full: list[list[Scalar]] | None
    tiny: list[list[Scalar]] | None


class Spelt(Struct, frozen=True):
    """What the scripts spell: words, names that a size could have, and values."""

    words: set[str]
    sizes: set[str]
    values: set[Scalar]


def doubts(
    quantities: Mapping[str, Quantity],
    tried: Record,
    past: Sequence[Record],
    source: str,
    offered: Sequence[Offered] = (),
) -> Iterator[tuple[str, str]]:
    """Yield the id of each quantity that names what no script measures, with what to say of it.

    `tried` is what ran without a GPU, `past` the records that there are, `source` the text of the scripts,
    `offered` the sizes that they chose from.
    """
    tree = parsed(source)
    spelt = Spelt(set(_WORD.findall(source)), keywords(tree), constants(tree))
    found = [each for record in (tried, *past) for each in record.measurements]
    for name, each in quantities.items():
        for words in [*_names(each, found, spelt), *_sizes(each, tried, found, spelt, offered)]:
            yield name, words


def _names(each: Quantity, found: list[Measurement], spelt: Spelt) -> Iterator[str]:
    """Yield what is doubtful about the subjects and the metric of a quantity."""
    subjects = {one.subject for one in found}
    metrics = {one.metric for one in found} | UNITS.keys() | {AA_METRIC}
    shared = each.metric in UNITS or any(one.metric == each.metric for one in found)
    asked = [("subject", each.subject, subjects, shared)]
    asked += [("subject", each.over, subjects, shared)] if each.over is not None else []
    asked += [("metric", each.metric, metrics, False)]
    for kind, wanted, known, without in asked:
        if wanted not in known and _is_doubtful(wanted, known, spelt.words, without=without):
            yield f"no {kind} {wanted!r}; {nearest(wanted, known)}"


def _is_doubtful(name: str, known: set[str], spelt: set[str], *, without: bool) -> bool:
    """Return whether `name` is a known one misspelt, or, `without` one close to it, no name at all."""
    if name.casefold() in map(str.casefold, known):
        return True
    if set(_WORD.findall(name)) <= spelt:
        return False  # made of words of the scripts: what they measure where there is a GPU
    return bool(known) and (without or bool(get_close_matches(name, sorted(known), 1, _ALIKE)))


def _sizes(
    each: Quantity,
    tried: Record,
    found: list[Measurement],
    spelt: Spelt,
    offered: Sequence[Offered],
) -> Iterator[str]:
    """Yield what is doubtful about the workload of a quantity: names of sizes, then their values."""
    own = [one for one in found if one.subject == each.subject] or found
    sizes = {key for one in own for key in one.workload}
    for key, value in each.workload.items():
        if key not in sizes:
            if sizes and key not in spelt.sizes:
                yield f"no size {key!r}; {nearest(key, sizes)}"
            continue
        here = _values(key, [one for one in tried.measurements if one in own])
        known = _full(here, offered)
        if known and value not in known | spelt.values | _values(key, own):
            options = nearest(f"{key}={value}", [f"{key}={one}" for one in known])
            yield f"no size {key}={value} is measured; {options}"


def _values(key: str, measurements: Iterable[Measurement]) -> set[Scalar]:
    return {plain(each.workload[key]) for each in measurements if key in each.workload}


def _full(tiny: set[Scalar], offered: Sequence[Offered]) -> set[Scalar]:
    """Return the sizes of a GPU in whose place the `tiny` values stand; empty where nobody can say."""
    full: set[Scalar] = set()
    seen: set[Scalar] = set()
    for each in offered:
        if each.full is None or each.tiny is None:
            return set()
        for few, many in zip(*_columns(each.tiny, each.full), strict=False):  # no tiny sizes at all
            if few & tiny:
                seen |= few
                full |= many
    return full if tiny <= seen else set()


def _columns(*tables: list[list[Scalar]]) -> tuple[Columns, ...]:
    """Return each table's columns; one column of all its values, where their rows are not all as long."""
    lengths = {len(row) for table in tables for row in table}
    if len(lengths) == 1:
        return tuple(
            [set(map(plain, column)) for column in zip(*rows, strict=True)] for rows in tables
        )
    return tuple([{plain(one) for row in rows for one in row}] for rows in tables)
