"""The journal as data, for machines: entries, claims, verdicts and intervals, and their JSON Schema.

The rule kept here: what each field means is said where it is declared, and the schema says it to others.
Nothing but types.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from warplog.claim import Verdict
from warplog.reading import Mean
from warplog.record import Number, Workload

FILE = "site.json"
SCHEMA_FILE = "site.schema.json"


class Bounds(Struct, frozen=True, forbid_unknown_fields=True):
    """The values under which a claim holds, both ends included; null where that end is open."""

    low: float | None
    high: float | None


class Report(Struct, frozen=True, forbid_unknown_fields=True):
    """What the original author reported, on which device; `value` is in SI units, or words."""

    value: Number | str
    device: str
    by: str
    url: str | None


class Judged(Struct, frozen=True, forbid_unknown_fields=True):
    """The verdict on one claim on one device; null where nothing counts as measured.

    `interval` runs from the lowest to the highest run over all workloads of the claim, or of their mean, in
    `unit`, which is SI: s, B/s, op/s; ratio for a speedup; fraction, 0 to 1. `workloads` is how many they
    are, and `runs` the number of fresh processes behind the one that has the fewest. `within_noise` says
    that the baseline against itself spreads as far.
    """

    device: str
    verdict: Verdict
    interval: tuple[float, float] | None
    unit: str | None
    runs: int
    workloads: int
    within_noise: bool
    reason: str | None


class Stated(Struct, frozen=True, forbid_unknown_fields=True):
    """One falsifiable sentence, what it is measured by, and the verdict on each device.

    `url` is the address to cite, null where the site has none. `workload` may name only some sizes: the
    claim then speaks of all workloads that match, or with `mean` of their mean, taken within each run;
    `mean` is null where each stands for itself. `cause` says in a line why a refuted claim did not hold, if
    it is known. `disputed` says that records of this very source have opposite verdicts, on one device
    or on several. `confirmations` is how many machines, beside that of the published record, have a record
    of this very source with the verdict that the entry's own device has: machines by what the records say
    of themselves, since nobody can know whose a record is.
    """

    id: str
    url: str | None
    says: str
    metric: str
    subject: str
    over: str | None
    workload: Workload
    mean: Mean | None
    bounds: Bounds
    reported: Report | None
    cause: str | None
    disputed: bool
    confirmations: int
    judged: list[Judged]


class Proof(Struct, frozen=True, forbid_unknown_fields=True):
    """The record of one device that an entry is judged by; null where it has none.

    A stale record was measured from other source than the entry shows: no verdict rests on it.
    `record_url` is null too where the site has no address. `disturbed` says in words what else the GPU was
    doing; `changed` names the files that differ.
    """

    device: str
    name: str
    record: str | None
    record_url: str | None
    recorded: str | None
    commit: str | None
    protocol: int | None
    older_protocol: bool
    stale: bool
    changed: list[str]
    disturbed: list[str]


class Item(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry. `address` leads from the site's top, `url` from anywhere: null where the site
    has no address of its own. `device` is the device whose numbers the prose shows; `headline` is the claim
    or value that the page opens with.
    """

    slug: str
    address: str
    url: str | None
    title: str
    date: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    tags: list[str]
    summary: str
    artifact: str
    device: str
    headline: str | None
    devices: list[Proof]
    claims: list[Stated]


class Gpu(Struct, frozen=True, forbid_unknown_fields=True):
    """A device that any entry was measured on; `url` is null where the site has no address."""

    device: str
    name: str
    address: str
    url: str | None


class Counts(Struct, frozen=True, forbid_unknown_fields=True):
    """How much there is. A claim counts once, with its verdict on the device of its entry."""

    entries: int
    claims: int
    supported: int
    refuted: int
    inconclusive: int
    untested: int
    devices: int


class Head(Struct, frozen=True, forbid_unknown_fields=True):
    """What the file says of the journal as a whole. `url` is the address of the site, null where it was built
    for no address: then every `url` in the file is null.
    """

    schema: Literal[1]
    name: str
    description: str
    url: str | None
    counts: Counts
    devices: list[Gpu]


class Dataset(Head, frozen=True, forbid_unknown_fields=True):
    """The whole file: every published entry, newest first."""

    entries: list[Item]


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the file, generated from the classes above."""
    return msgspec.json.schema(Dataset)
