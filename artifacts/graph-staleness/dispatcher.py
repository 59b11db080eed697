"""A launch is made into a CUDA graph once a key, and replayed with every parameter written anew.

What keeps it safe:

- one list of values a kernel, scalars and scratch included, is what a direct launch packs, what the
  nodes of the graph are given on *every* call, and what the audit compares with;
- the key is all that decides code and launch shape: shape, dtype and device of every tensor, the
  value of every integer scalar, and the stream; strides follow from the shape, because only contiguous
  tensors at aligned addresses are taken; the plan is fixed in a dispatcher;
- scratch belongs to the entry, so two entries never share it, and one entry's launches are ordered; it
  is allocated on the stream of the launches;
- a lock holds from the first parameter written to the launch.

And what finds it out if it is not: `cache = False` launches directly; every `audit_every`-th call
reads the parameters back before the launch; every `shadow_every`-th launches directly as well, into
memory of its own, and compares the bits. All of these trust the one list of values: one that is wrong
for every launch alike is seen by a shadow that has a `launcher` of its own, and by nothing else.
"""

import threading
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Any, Protocol

import torch
from graph import Launch, PatchedGraph, StaleGraph, Step, Values
from memory import addresses_of, bits, unwritten
from streams import check_current, on_stream, torch_stream
from torch import Tensor

ENTRIES = 64
ALIGNMENT = 16
NUMBERS = (float, int)
_described = attrgetter("shape", "dtype", "device")

Launcher = Callable[[Sequence[Tensor], Sequence[float]], None]


class Operation(Protocol):
    """What the dispatcher must know of a launch: how many tensors it takes, in a fixed order, how many
    of them are outputs, which are the last, and how many scalars.
    """

    tensors: int
    outputs: int
    scalars: int

    def steps(self, tensors: Sequence[Tensor], scalars: Sequence[float]) -> tuple[Step, ...]:
        """Check what is given and return the kernels to start, or raise ValueError.

        They may be special to shapes, and to the values of scalars that are whole, and to no more.
        """

    def scratch(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Allocate what the kernels leave to each other."""

    def values(
        self, addresses: Sequence[int], scalars: Sequence[float], scratch: Sequence[int]
    ) -> Values:
        """Return every parameter of every kernel."""


class Entry:
    """One graph, and what it owns: the scratch memory, and what a shadow needs once it is asked for."""

    def __init__(self, driver: Any, steps: tuple[Step, ...], scratch: tuple[Tensor, ...],
                 values: Values) -> None:  # fmt: skip
        """Build the graph with the first call's values."""
        self.scratch = scratch
        self.scratch_addresses = addresses_of(scratch)
        self.graph = PatchedGraph(driver, steps, values)
        self.calls = self.used = 0


class Dispatcher:
    """Replays `operation` from a graph. Call it with all tensors (outputs last) and the scalars."""

    def __init__(
        self,
        driver: Any,
        operation: Operation,
        *,
        cache: bool = True,
        audit_every: int = 0,
        shadow_every: int = 0,
        entries: int = ENTRIES,
        stream: Callable[[torch.device], int] = torch_stream,
        launcher: Launcher | None = None,
    ) -> None:
        """`driver` is `cuda.bindings.driver`; 0 for `audit_every` or `shadow_every` is never; `entries`
        graphs are kept, those that were used last.

        `launcher` starts the operation some other way on torch's current stream, for shadows.
        """
        if entries < 1:
            raise ValueError(f"entries={entries}: keep at least one graph")
        self.cache, self.audit_every, self.shadow_every = cache, audit_every, shadow_every
        self.operation, self._driver, self._stream = operation, driver, stream
        self._most, self._launcher = entries, launcher
        self._entries: dict[Hashable, Entry] = {}
        self._clock = 0
        self._lock = threading.Lock()

    # region: call
    def __call__(self, tensors: Sequence[Tensor], *scalars: float) -> None:
        """Start the operation on torch's current stream; it writes into the last tensors.

        Raises ValueError for what the operation cannot take, before anything is started, and
        StaleGraph if an audit or a shadow finds that the graph is not the call's.
        """
        self._check(tensors, scalars)
        stream = self._stream(tensors[0].device)
        if not self.cache:
            self.launch_directly(tensors, scalars, stream)
            return
        addresses = addresses_of(tensors)
        with self._lock:
            entry = self._entry(tensors, addresses, scalars, stream)
            values = self.operation.values(addresses, scalars, entry.scratch_addresses)
            entry.calls += 1
            if self.audit_every and entry.calls % self.audit_every == 0:
                self._patch_audited(entry, self.operation.steps(tensors, scalars), values)
            else:
                self._write(entry, values)
                entry.graph.update()
            shadows = ()
            if self.shadow_every and entry.calls % self.shadow_every == 0:
                shadows = self._shadow(tensors, scalars, stream)
            entry.graph.replay(stream)
        if shadows:
            self._compare(tensors, shadows, stream)

    # endregion

    def _check(self, tensors: Sequence[Tensor], scalars: Sequence[float]) -> None:
        """Raise ValueError for too many or too few, for no number, and for another GPU than torch's."""
        if len(tensors) != self.operation.tensors:
            wanted = self.operation.tensors
            raise ValueError(f"{len(tensors)} tensors: pass {wanted}, the outputs last")
        if len(scalars) != self.operation.scalars:
            raise ValueError(f"{len(scalars)} scalars: pass {self.operation.scalars}")
        wrong = [scalar for scalar in scalars if not isinstance(scalar, NUMBERS)]
        if wrong:
            raise ValueError(f"a scalar is {wrong[0]!r}: pass an int or a float")
        check_current(tensors[0].device)

    # region: key
    def _key(self, tensors: Sequence[Tensor], scalars: Sequence[float], stream: int) -> Hashable:
        """Return all that decides which code runs on what grid, and whose scratch it may use."""
        whole = [None if isinstance(scalar, float) else scalar for scalar in scalars]
        return (stream, *whole, *map(_described, tensors))

    # endregion

    def _entry(self, tensors: Sequence[Tensor], addresses: Sequence[int],
               scalars: Sequence[float], stream: int) -> Entry:  # fmt: skip
        """Return the entry of this call's key, which is made if there is none."""
        combined = 0
        for address in addresses:
            combined |= address
        if combined % ALIGNMENT or not all(map(Tensor.is_contiguous, tensors)):
            self.operation.steps(tensors, scalars)  # raises, and says which tensor it is
            raise ValueError(
                f"a tensor has gaps, or its address is no multiple of {ALIGNMENT}, and no key tells "
                "that from others: pass a contiguous copy of it"
            )
        key = self._key(tensors, scalars, stream)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = self._made(tensors, addresses, scalars, stream)
        self._clock += 1
        entry.used = self._clock
        if len(self._entries) > self._most:
            oldest = min(self._entries, key=lambda each: self._entries[each].used)
            self._entries.pop(oldest).graph.close()
        return entry

    def _made(self, tensors: Sequence[Tensor], addresses: Sequence[int],
              scalars: Sequence[float], stream: int) -> Entry:  # fmt: skip
        """Make the entry of a call; ValueError for what the operation cannot take."""
        steps = self.operation.steps(tensors, scalars)
        with on_stream(stream, tensors[0].device):
            scratch = self.operation.scratch(tensors)
        values = self.operation.values(addresses, scalars, addresses_of(scratch))
        return Entry(self._driver, steps, scratch, values)

    def _write(self, entry: Entry, values: Values) -> None:
        """Write the parameters of all nodes: a faulty dispatcher would forget some here."""
        entry.graph.write(values)

    def _patch_audited(self, entry: Entry, steps: tuple[Step, ...], values: Values) -> None:
        """Patch the nodes so that a forgotten parameter is seen even if it has not changed."""
        self._poison(entry)
        self._write(entry, values)
        entry.graph.update_audited(steps, values)

    def _poison(self, entry: Entry) -> None:
        for arguments in entry.graph.arguments:
            arguments.poison()

    def launch_directly(
        self, tensors: Sequence[Tensor], scalars: Sequence[float], stream: int
    ) -> None:
        """Start the operation without a graph, with scratch that only this call has."""
        launch = Launch(self._driver, self.operation.steps(tensors, scalars))
        with on_stream(stream, tensors[0].device):
            scratch = self.operation.scratch(tensors)
        launch.write(self.operation.values(addresses_of(tensors), scalars, addresses_of(scratch)))
        launch.start(stream)

    # region: shadow
    def _shadow(
        self, tensors: Sequence[Tensor], scalars: Sequence[float], stream: int
    ) -> list[Tensor]:
        """Start the same call into other outputs, before the replay: its outputs may be inputs, too."""
        count = self.operation.outputs
        with on_stream(stream, tensors[0].device):
            shadows = [unwritten(tensor) for tensor in tensors[-count:]]
            given = [*tensors[:-count], *shadows]
            if self._launcher is None:
                self.launch_directly(given, scalars, stream)
            else:
                self._launcher(given, scalars)
        return shadows

    @staticmethod
    def _compare(tensors: Sequence[Tensor], shadows: Sequence[Tensor], stream: int) -> None:
        """Wait, and compare the bits of the outputs."""
        with on_stream(stream, tensors[0].device):
            pairs = zip(tensors[-len(shadows) :], shadows, strict=True)
            wrong = [int((bits(ours) != bits(theirs)).sum()) for ours, theirs in pairs]
        for number, (count, shadow) in enumerate(zip(wrong, shadows, strict=True)):
            if count:
                raise StaleGraph(
                    f"{count} of {shadow.numel()} elements of output {number} are not those of a "
                    "direct launch: do not use them; set cache = False"
                )

    # endregion

    def close(self) -> None:
        """Give all graphs back, once no call is writing or starting one."""
        with self._lock:
            while self._entries:
                self._entries.popitem()[1].graph.close()
