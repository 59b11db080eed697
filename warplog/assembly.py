"""Puts what the processes of one reproduction wrote down together into one record.

The rule kept here: runs are paired by number, so that a measurement which is not whole in every process
is a failure with a reason, and never a shorter list.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from warplog.child import Ended
from warplog.record import PROTOCOL, SCHEMA, Environment, Measurement, Protocol, Record, Source
from warplog.source import Artifact, closure_digest, file_digest
from warplog.store import utc_now

MEASURING = ("case", "comparison", "measure", "process", "profile", "run", "timer")

Events = list[dict[str, Any]]


def assemble(
    artifact: Artifact, ended: list[Ended], counted: Events, commit: str | None, seconds: float
) -> Record:
    """Return the record of processes that all ended well; `counted` is Nsight Compute's part.

    A stated `commit` stands in the place of git's, and then nobody knows whether the tree differed.
    """
    about = [one.of("environment")[-1] for one in ended]
    first = about[0]
    files = artifact.digests(sorted({name for one in about for name in one["shared"]}))
    named = ("gpu", "driver", "python", "system", "packages", "variables")
    clocks = [reading for one in about for reading in one["clocks"]]
    measurements = merge([one.measurements for one in ended]) + counted
    return Record(
        schema=SCHEMA,
        artifact=artifact.slug,
        device=first["device"],
        recorded=utc_now(),
        seconds=round(seconds, 1),
        source=Source(
            closure_digest(files), files, *((commit, None) if commit else artifact.commit())
        ),
        protocol=Protocol(PROTOCOL, len(ended), first["timer"], first["flush_bytes"], _harness()),
        environment=Environment(**{key: first[key] for key in named}, clocks=clocks),
        disturbed=[
            f"run {number}: {line}"
            for number, one in enumerate(about, 1)
            for line in one["disturbed"]
        ],
        measurements=msgspec.convert(measurements, list[Measurement]),
    )


def _harness() -> str:
    """Return the digest of the modules that decide how a number is made."""
    here = Path(__file__).parent
    return closure_digest({name: file_digest(here / f"{name}.py") for name in MEASURING})


def merge(runs: list[Events]) -> Events:
    """Join the same measurement of every process. One that failed anywhere has failed, and says so;
    one that a process did not make has failed too, unless its subject's failure tells of it already.
    """
    merged: dict[str, dict[str, Any]] = {}
    for run in runs:
        for each in run:
            _add(merged.setdefault(_key(each, "metric"), {**each, "runs": []}), each)
    wrong = {_key(each) for each in merged.values() if "failed" in each}
    whole = []
    for each in merged.values():
        made = len(each["runs"])
        if "failed" not in each and made != len(runs):
            if _key(each) in wrong:
                continue
            each["failed"] = f"measured in {made} of {len(runs)} processes only"
        whole.append(_without_runs(each) if "failed" in each else each)
    return whole


def _add(known: dict[str, Any], each: dict[str, Any]) -> None:
    """Add one process's measurement to what is known of it."""
    if "failed" in each:
        known["failed"] = each["failed"]
    known["runs"] += each.get("runs", [])
    if known.get("timer") != each.get("timer"):
        known["timer"] = "events"


def _without_runs(failed: dict[str, Any]) -> dict[str, Any]:
    kept = ("metric", "unit", "subject", "workload", "failed")
    return {name: failed[name] for name in kept}


def _key(measurement: dict[str, Any], *more: str) -> str:
    """Return what tells one measurement from another: its subject and workload, and `more`."""
    names = ("subject", "workload", *more)
    return json.dumps([measurement[name] for name in names], sort_keys=True)
