"""The graphs that a dispatcher keeps, each with its scratch, and counters that outlive them.

A graph is given back when nobody holds it any more, so a call that is using one that was just dropped
ends in peace. A key's counter stays when its graph goes: otherwise keys that push each other out would
never be checked.
"""

import itertools
import threading
from collections.abc import Hashable, Iterator
from typing import Any

from graph import PatchedGraph, Step, Values
from memory import addresses_of
from torch import Tensor

COUNTERS = 1024


class Entry:
    """One graph, and what it owns: its scratch memory, and the lock that its callers take in turn."""

    def __init__(
        self, driver: Any, steps: tuple[Step, ...], scratch: tuple[Tensor, ...], values: Values,
        *, conjugates: bool = False,
    ) -> None:  # fmt: skip
        """Build the graph with the first call's values; `conjugates` is whether a tensor is complex."""
        self.scratch = scratch
        self.scratch_addresses = addresses_of(scratch)
        self.graph = PatchedGraph(driver, steps, values)
        self.lock = threading.Lock()
        self.conjugates = conjugates
        self.stale = False
        self.used = 0
        self.calls: Iterator[int] = itertools.count(1)


class Cache(dict[Hashable, Entry]):
    """Entries by key. Whoever adds or drops one holds the dispatcher's lock; looking one up needs none."""

    def __init__(self, most: int, counters: int = COUNTERS) -> None:
        """`most` graphs are kept, those that were used last, and `counters` of others that were not."""
        super().__init__()
        self.most, self._most_counters = most, counters
        self._counters: dict[Hashable, Iterator[int]] = {}
        self.clock = itertools.count(1)

    def add(self, key: Hashable, entry: Entry) -> None:
        """Keep an entry, which goes on with its key's counter, and drop the one not used for longest.

        With no room for more counters, a new key takes over the oldest: so of n calls one is still
        checked, though not of each key.
        """
        counter = self._counters.pop(key, None)
        if counter is None and len(self._counters) >= self._most_counters:
            counter = self._counters.pop(next(iter(self._counters)))
        entry.calls = counter or entry.calls
        entry.used = next(self.clock)
        self[key] = entry
        if len(self) > self.most:
            oldest = min(self, key=lambda each: self[each].used)
            self.drop(oldest, self[oldest])

    def drop(self, key: Hashable, entry: Entry) -> None:
        """Let an entry go, unless another has its place already; its counter stays."""
        if self.get(key) is entry:
            self._counters[key] = self.pop(key).calls
