"""A launch is made into a CUDA graph once a key, and replayed with every parameter written anew.

What keeps it safe:

- one list of values a kernel, scalars and scratch included, is what a direct launch packs, what the
  nodes of the graph are given on *every* call, and what the audit compares with;
- the key is all that decides code and launch shape: shape, dtype and device of every tensor, the
  value of every integer scalar, and the stream; strides follow from the shape, because only contiguous
  tensors at aligned addresses are taken; the plan is fixed in a dispatcher;
- scratch belongs to the entry, so two entries never share it, and one entry's launches are ordered; it
  is allocated on the stream of the launches;
- an entry's lock holds from the first parameter written to the launch, and nothing of the operation's
  runs under it; another lock is held while a graph is made, and by no call that finds one.

And what finds it out if it is not: `cache = False` launches directly; every `audit_every`-th call
reads the parameters back before the launch; every `shadow_every`-th launches directly as well, into
memory of its own, and compares the bits. All of these trust the one list of values: one that is wrong
for every launch alike is seen by a shadow that has a `launcher` of its own, and by nothing else.
After a check that failed its graph is gone, and every call has that check: see `StaleGraph`.
"""

import threading
import warnings
from collections.abc import Callable, Hashable, Sequence
from functools import reduce
from operator import attrgetter, or_
from typing import Any

import torch
from cache import Cache, Entry
from graph import Launch, StaleGraph, Step, Values
from memory import ALIGNMENT, addresses_of, differing, unwritten
from operation import Launcher, Operation, check_options, checked
from streams import on_stream, torch_stream
from torch import Tensor

ENTRIES = 64
_described = attrgetter("shape", "dtype", "device")


class Dispatcher:
    """Replays `operation` from a graph. Call it with all tensors (outputs last) and the scalars."""

    def __init__(
        self, driver: Any, operation: Operation, *, cache: bool = True,
        audit_every: int = 0, shadow_every: int = 0, entries: int = ENTRIES,
        stream: Callable[[torch.device], int] = torch_stream, launcher: Launcher | None = None,
    ) -> None:  # fmt: skip
        """`driver` is `cuda.bindings.driver`; 0 for `audit_every` or `shadow_every` is never; `entries`
        graphs are kept, those that were used last. Calls are counted for each key.

        `launcher` starts the operation some other way on torch's current stream, for shadows.
        """
        check_options(operation, audit_every, shadow_every, entries)
        self.cache, self.audit_every, self.shadow_every = cache, audit_every, shadow_every
        self.operation, self._driver, self._stream = operation, driver, stream
        self._launcher, self._closed = launcher, False
        self._entries = Cache(entries)
        self._clock = self._entries.clock
        self._making = threading.RLock()
        self._shadowing: set[int] = set()

    # region: call
    def __call__(self, tensors: Sequence[Tensor], *scalars: float) -> None:
        """Start the operation on torch's current stream; it writes into the last tensors.

        Raises ValueError for what the operation cannot take and RuntimeError inside a capture or after
        `close`, before anything is started, and StaleGraph if an audit or a shadow finds that the
        graph is not the call's.
        """
        device = checked(self.operation, tensors, scalars)
        addresses = list(map(Tensor.data_ptr, tensors))
        if (
            reduce(or_, addresses) % ALIGNMENT
            or not all(map(Tensor.is_contiguous, tensors))
            or any(map(Tensor.is_neg, tensors))
        ):
            self._refuse(tensors, scalars)
        stream, cache, entry = self._stream(device), self.cache, None
        if cache:
            key = self._key(tensors, scalars, stream)
            entry = self._entries.get(key)
        if (entry is None or entry.conjugates) and any(map(Tensor.is_conj, tensors)):
            self._refuse(tensors, scalars)
        if not cache:
            self._check_open()
            self.launch_directly(tensors, scalars, stream)
            return
        if entry is None:
            entry = self._made(key, tensors, addresses, scalars, stream)
        entry.used = next(self._clock)
        audited, shadows = None, ()
        if self.audit_every or self.shadow_every:
            audited, shadows = self._checks(entry, tensors, scalars, stream)
        values = self.operation.values(addresses, scalars, entry.scratch_addresses)
        try:
            with entry.lock:
                if audited is None and not entry.stale:
                    self._write(entry, values)
                    entry.graph.update()
                else:
                    self._patch_audited(entry, audited, values)
                entry.graph.replay(stream)
            if shadows:
                self._compare(tensors, shadows, stream)
        except BaseException:
            self._drop(key, entry)
            raise

    # endregion

    def _refuse(self, tensors: Sequence[Tensor], scalars: Sequence[float]) -> None:
        """Raise ValueError for memory that is not what shape and dtype say."""
        self.operation.steps(tensors, scalars)  # may raise, and say which tensor it is
        raise ValueError(
            f"a tensor has gaps, its address is no multiple of {ALIGNMENT}, or it stands for its "
            "negative or its conjugate, and no key tells that from others: pass a contiguous copy of "
            "it, as by clone(memory_format=torch.contiguous_format)"
        )

    # region: key
    def _key(self, tensors: Sequence[Tensor], scalars: Sequence[float], stream: int) -> Hashable:
        """Return all that decides which code runs on what grid, and whose scratch it may use."""
        key: list[Hashable] = [stream]
        for scalar in scalars:
            key.append(None if isinstance(scalar, float) else scalar)  # noqa: PERF401 - faster so
        return (*key, *map(_described, tensors))

    # endregion

    def _made(self, key: Hashable, tensors: Sequence[Tensor], addresses: Sequence[int],
              scalars: Sequence[float], stream: int) -> Entry:  # fmt: skip
        """Make the entry of a key, once; ValueError for what the operation cannot take."""
        with self._making:
            self._check_open()
            entry = self._entries.get(key)
            if entry is None:
                steps = self.operation.steps(tensors, scalars)
                with on_stream(stream, tensors[0].device):
                    scratch = self.operation.scratch(tensors)
                values = self.operation.values(addresses, scalars, addresses_of(scratch))
                conjugates = any(map(Tensor.is_complex, tensors))
                entry = Entry(self._driver, steps, scratch, values, conjugates=conjugates)
                self._entries.add(key, entry)
        return entry

    def _drop(self, key: Hashable, entry: Entry) -> None:
        """Let no call use an entry again after one has failed: what it holds is not known."""
        entry.stale = True
        with self._making:
            self._entries.drop(key, entry)

    def _write(self, entry: Entry, values: Values) -> None:
        """Write the parameters of all nodes: a faulty dispatcher would forget some here."""
        entry.graph.write(values)

    def _patch_audited(self, entry: Entry, steps: tuple[Step, ...] | None, values: Values) -> None:
        """Patch the nodes so that a forgotten parameter is seen even if it has not changed."""
        if entry.stale or steps is None:
            raise StaleGraph("another call has just found this graph stale: nothing was launched")
        entry.stale = True  # until it is known to be whole again
        self._poison(entry)
        self._write(entry, values)
        try:
            entry.graph.update_audited(steps, values)
        except StaleGraph:
            self.audit_every = 1
            raise
        entry.stale = False

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

    def _checks(
        self, entry: Entry, tensors: Sequence[Tensor], scalars: Sequence[float], stream: int
    ) -> tuple[tuple[Step, ...] | None, Sequence[Tensor]]:
        """Count the call; return the steps to audit it by, and a shadow's outputs, if they are due."""
        if self._shadowing and threading.get_ident() in self._shadowing:
            raise RuntimeError(
                "a launcher calls the dispatcher that it is to check: start it otherwise"
            )
        calls, audited, shadows = next(entry.calls), None, ()
        if self.audit_every and calls % self.audit_every == 0:
            audited = self.operation.steps(tensors, scalars)
        if self.shadow_every and calls % self.shadow_every == 0:
            shadows = self._shadow(tensors, scalars, stream)
        return audited, shadows

    # region: shadow
    def _shadow(
        self, tensors: Sequence[Tensor], scalars: Sequence[float], stream: int
    ) -> Sequence[Tensor]:
        """Start the same call into other outputs, before the replay: its outputs may be inputs, too.

        What fails here fails no call: it goes unchecked, with a warning.
        """
        count, thread = self.operation.outputs, threading.get_ident()
        self._shadowing.add(thread)
        try:
            with on_stream(stream, tensors[0].device):
                shadows = [unwritten(tensor) for tensor in tensors[-count:]]
                given = [*tensors[:-count], *shadows]
                if self._launcher is None:
                    self.launch_directly(given, scalars, stream)
                else:
                    self._launcher(given, scalars)
        except Exception as error:  # noqa: BLE001 - a launcher may raise anything
            warnings.warn(f"a call has no shadow: {error!r}", RuntimeWarning, stacklevel=4)
            return ()
        finally:
            self._shadowing.discard(thread)
        return shadows

    def _compare(self, tensors: Sequence[Tensor], shadows: Sequence[Tensor], stream: int) -> None:
        """Wait, and compare the bits of the outputs."""
        with on_stream(stream, tensors[0].device):
            pairs = zip(tensors[-len(shadows) :], shadows, strict=True)
            wrong = [differing(ours, theirs) for ours, theirs in pairs]
        for number, (count, shadow) in enumerate(zip(wrong, shadows, strict=True)):
            if count:
                self.shadow_every = 1
                raise StaleGraph(
                    f"{count} of {shadow.numel()} elements of output {number} are not those of a "
                    "direct launch: do not use them; set cache = False"
                )

    # endregion

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the dispatcher is closed: make another one")

    def close(self) -> None:
        """Give all graphs back, each once no call is using it; a call after this is refused."""
        with self._making:
            self._closed = True
            self._entries.clear()
