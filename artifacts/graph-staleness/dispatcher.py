"""A launch is made into a CUDA graph once a key, and replayed with every parameter written anew.

What keeps it safe:

- one list of values a kernel, scalars and scratch included, is what a direct launch packs, what the
  nodes of the graph are given on *every* call, and what the audit compares with;
- the key is all that decides code and launch shape: shape, dtype and device of every tensor, and the
  stream; strides follow from the shape, because only contiguous tensors at aligned addresses are
  taken; the plan is fixed in a dispatcher;
- scratch belongs to the entry, so two entries never share it, and one entry's launches are ordered;
- a lock holds from the first parameter written to the launch.

And what finds it out if it is not: `cache = False` launches directly; every `audit_every`-th call
reads the parameters back before the launch; every `shadow_every`-th launches directly as well, into
memory of its own, and compares the bits.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Any, Protocol

import torch
from graph import Launch, PatchedGraph, StaleGraph, Step, Values
from torch import Tensor

ENTRIES = 64
ALIGNMENT = 16
_described = attrgetter("shape", "dtype", "device")


class Operation(Protocol):
    """What the dispatcher must know of a launch. `tensors` are inputs and outputs, in a fixed order."""

    outputs: int

    def steps(self, tensors: Sequence[Tensor]) -> tuple[Step, ...]:
        """Check the tensors and return the kernels to start, or raise ValueError."""

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
        self.calls = 0


def addresses_of(tensors: Sequence[Tensor]) -> list[int]:
    """Return where each tensor's data starts."""
    return list(map(Tensor.data_ptr, tensors))


def torch_stream(device: torch.device) -> int:
    """Return the handle of torch's current stream on a tensor's `device`; 0 without a GPU.

    Asked for as Triton does it: `torch.cuda.current_stream` makes an object of it first.
    """
    return torch._C._cuda_getCurrentRawStream(device.index) if device.type == "cuda" else 0


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
    ) -> None:
        """`driver` is `cuda.bindings.driver`; 0 for `audit_every` or `shadow_every` is never."""
        if entries < 1:
            raise ValueError(f"entries={entries}: keep at least one graph")
        self.cache, self.audit_every, self.shadow_every = cache, audit_every, shadow_every
        self.operation, self._driver, self._stream = operation, driver, stream
        self._most = entries
        self._entries: OrderedDict[Hashable, Entry] = OrderedDict()
        self._lock = threading.Lock()

    # region: call
    def __call__(self, tensors: Sequence[Tensor], *scalars: float) -> None:
        """Start the operation on torch's current stream; it writes into the last tensors.

        Raises ValueError for tensors that the operation cannot take, before anything is started,
        and StaleGraph if an audit or a shadow finds that the graph is not the call's.
        """
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
                self._patch_audited(entry, tensors, values)
            else:
                self._write(entry, values)
                entry.graph.update()
            entry.graph.replay(stream)
        if self.shadow_every and entry.calls % self.shadow_every == 0:
            self._compare_with_shadow(tensors, scalars, stream)

    # endregion

    # region: key
    def _key(self, tensors: Sequence[Tensor], stream: int) -> Hashable:
        """Return all that decides which code runs on what grid, and whose scratch it may use."""
        return (stream, *map(_described, tensors))

    # endregion

    def _entry(self, tensors: Sequence[Tensor], addresses: Sequence[int],
               scalars: Sequence[float], stream: int) -> Entry:  # fmt: skip
        """Return the entry of this call's key, which is made if there is none."""
        combined = 0
        for address in addresses:
            combined |= address
        if combined % ALIGNMENT or not all(map(Tensor.is_contiguous, tensors)):
            self.operation.steps(tensors)  # raises, and says which tensor it is
            raise ValueError(
                f"a tensor has gaps, or its address is no multiple of {ALIGNMENT}, and no key tells "
                "that from others: pass a contiguous copy of it"
            )
        key = self._key(tensors, stream)
        entry = self._entries.get(key)
        if entry is None:
            steps, scratch = self.operation.steps(tensors), self.operation.scratch(tensors)
            values = self.operation.values(addresses, scalars, addresses_of(scratch))
            entry = self._entries[key] = Entry(self._driver, steps, scratch, values)
            if len(self._entries) > self._most:
                self._entries.popitem(last=False)[1].graph.close()
        return entry

    def _write(self, entry: Entry, values: Values) -> None:
        """Write the parameters of all nodes: a faulty dispatcher would forget some here."""
        entry.graph.write(values)

    def _patch_audited(self, entry: Entry, tensors: Sequence[Tensor], values: Values) -> None:
        """Patch the nodes so that a forgotten parameter is seen even if it has not changed."""
        self._poison(entry)
        self._write(entry, values)
        entry.graph.update_audited(self.operation.steps(tensors), values)

    def _poison(self, entry: Entry) -> None:
        for arguments in entry.graph.arguments:
            arguments.poison()

    def launch_directly(
        self, tensors: Sequence[Tensor], scalars: Sequence[float], stream: int
    ) -> None:
        """Start the operation without a graph, with scratch that only this call has."""
        launch = Launch(self._driver, self.operation.steps(tensors))
        scratch = self.operation.scratch(tensors)
        launch.write(self.operation.values(addresses_of(tensors), scalars, addresses_of(scratch)))
        launch.start(stream)

    # region: shadow
    def _compare_with_shadow(
        self, tensors: Sequence[Tensor], scalars: Sequence[float], stream: int
    ) -> None:
        """Launch the same call directly into other outputs, wait, and compare the bits."""
        count = self.operation.outputs
        shadows = [torch.full_like(tensor, torch.nan) for tensor in tensors[-count:]]
        self.launch_directly([*tensors[:-count], *shadows], scalars, stream)
        for number, (ours, theirs) in enumerate(zip(tensors[-count:], shadows, strict=True)):
            wrong = int((bits(ours) != bits(theirs)).sum())
            if wrong:
                raise StaleGraph(
                    f"{wrong} of {ours.numel()} elements of output {number} are not those of a "
                    "direct launch: do not use them; set cache = False"
                )

    # endregion

    def close(self) -> None:
        """Give all graphs back."""
        while self._entries:
            self._entries.popitem()[1].graph.close()


def bits(tensor: Tensor) -> Tensor:
    """Return a tensor's elements as whole numbers, so that NaN equals itself."""
    return tensor.view({2: torch.int16, 4: torch.int32}[tensor.itemsize])
