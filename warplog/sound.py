"""What makes a record sound beyond the types of its fields: the rules that sums and ratios rest on.

The rule kept here: a number is finite and of a size that arithmetic survives, a name is given once, and
the runs of a measurement pair with those of another. Pure; imports nothing of the harness.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

LARGEST = 1e300
TIMES = {"latency", "latency_again"}
_RECORDED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\Z")

Steps = list[str]
Found = Iterator[tuple[Steps, str]]


def usable(value: object) -> bool:
    """Return whether a number is finite and at most 1e300: no product or ratio of it raises."""
    return not isinstance(value, int | float) or abs(value) <= LARGEST


def repeated_key(text: bytes) -> str | None:
    """Return the first key that an object of the JSON in `text` gives twice, or None.

    A parser keeps one of the two without a word, so a seal over what was parsed does not see it.
    """
    found: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> None:
        keys = [key for key, _ in items]
        if len(set(keys)) != len(keys):
            found.append(next(key for key in keys if keys.count(key) > 1))

    json.loads(text, object_pairs_hook=pairs)
    return found[0] if found else None


def problems(data: dict[str, Any]) -> Found:
    """Yield the steps to each value of a record that is unsound, and what is wrong with it.

    `data` is the parsed JSON of a record whose fields have the right types.
    """
    yield from _numbers(data)
    if not _RECORDED.match(data["recorded"]):
        yield ["recorded"], "recorded: is no UTC time"
    runs = data["protocol"]["runs"]
    if runs < 1:
        yield ["protocol", "runs"], f"protocol: {runs} runs"
    for index, each in enumerate(data["measurements"]):
        for step, problem in _measurement(each, runs):
            who = f"{str(each['metric'])[:80]} of {str(each['subject'])[:80]!r}"
            yield ["measurements", str(index), step], f"{who}: {problem}"


def _numbers(data: dict[str, Any]) -> Found:
    """Yield each number that arithmetic would not survive, wherever it stands."""
    pending: list[tuple[Steps, Any]] = [] if _survives(data) else [([], data)]
    while pending:
        steps, value = pending.pop()
        if isinstance(value, dict):
            pending += [([*steps, key], each) for key, each in value.items()]
        elif isinstance(value, list):
            pending += [([*steps, str(index)], each) for index, each in enumerate(value)]
        elif not usable(value):
            yield steps, f"{steps[-1]}: a number beyond {LARGEST:g}"


def _survives(value: Any) -> bool:
    """Return whether every number in `value` is usable, without a word on where one is not."""
    if isinstance(value, dict):
        return all(map(_survives, value.values()))
    if isinstance(value, list):
        return _all_usable(value) or all(map(_survives, value))
    return usable(value)


def _all_usable(values: list[Any]) -> bool:
    """Return whether `values` are numbers and all usable: most of a record is such lists."""
    try:
        return bool(min(values) >= -LARGEST and max(values) <= LARGEST)
    except (TypeError, ValueError):  # not numbers, or no value at all
        return False


def _measurement(each: dict[str, Any], runs: int) -> Iterator[tuple[str, str]]:
    """Yield the field of one measurement that is unsound, and why. A counter has one run."""
    lists = each.get("runs")
    if (lists is None) == (each.get("failed") is None):
        yield "runs", "has both runs and a failure" if lists else "has neither runs nor a failure"
    elif lists is not None and len(lists) not in (1, runs):
        yield "runs", f"{len(lists)} runs, but the record is of {runs}"
    if each["metric"] in TIMES and any(min(run) <= 0 for run in lists or []):
        yield "runs", "a time of zero or less"
    for amount in ("traffic", "work"):
        if (each.get(amount) or 0) < 0:
            yield amount, f"{amount} is negative"
    if not all(key.isidentifier() for key in each["workload"]):
        yield "workload", "the name of a size is no plain word"
