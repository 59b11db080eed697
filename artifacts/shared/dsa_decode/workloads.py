"""What is attended to: problems of every family, and the edges of the operation."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from shared import dsa_lists
from shared.dsa import PAGES, WIDTH, Problem, problem, traffic, work
from shared.dsa_lists import CONTEST, FAMILIES, Lists
from torch import Tensor

TINY_PAGES = 64


@dataclass(frozen=True)
class Family:
    """One family for a number of tokens; `draw(seed)` makes its lists, all seeds list as many rows."""

    name: str
    tokens: int
    draw: Callable[[int], Lists]

    def inputs(self, seed: int, pages: int) -> tuple[Tensor | float, ...]:
        """Return the inputs of a call, and the rows that are listed without padding: int32 [rows]."""
        indices = self.draw(seed).indices
        return *problem(indices, seed, pages), indices[indices >= 0]

    @property
    def sizes(self) -> dict[str, int | str]:
        """The sizes that name it."""
        return {"family": self.name, "tokens": self.tokens}


def pages_of(run) -> int:
    """Return how large the cache is."""
    return TINY_PAGES if run.tiny else PAGES


def drawn(run, name: str, tokens: int) -> Family:
    """Make a family of `FAMILIES`, or one in another order: `shuffled contest-like`."""
    order, _, base = name.rpartition(" ")
    base, _, rows = base.partition("-of-")
    named = {"rows": int(rows) if rows else pages_of(run) * 64, "device": run.device}
    make = partial(FAMILIES[base], tokens, **named)
    if not order:
        return Family(name, tokens, make)
    if order == "shuffled":
        return Family(name, tokens, lambda seed: dsa_lists.shuffled(make(seed), seed))
    reorder = getattr(dsa_lists, order.replace("-", "_"))
    return Family(name, tokens, lambda seed: reorder(make(seed)))


def public(run, case: int) -> Family:
    """Make public workload number `case`."""
    rows = pages_of(run) * 64
    draw = partial(dsa_lists.contest, case, rows=rows, device=run.device)
    return Family("contest", len(CONTEST[case]), draw)


def amounts(family: Family, seed: int) -> dict[str, int]:
    """Return `traffic` in bytes and `work` in operations of a call, for `Run.compare`.

    The different rows of a random draw vary by a part in a thousand from seed to seed; a hundredth is
    left off, so that no draw moves less than is said.
    """
    lists = family.draw(seed)
    unique = lists.unique_rows
    if family.name.startswith(("uniform", "clustered")) and family.tokens > 1:
        unique = int(unique * 0.99)
    return {"traffic": traffic(family.tokens, unique, WIDTH), "work": work(lists.rows)}


# region: edges
def edges(device: torch.device, seed: int, pages: int) -> Problem:
    """Make a token for each edge: no row, one row in the middle, one at either end, padding first, last
    and between, the same row 2048 times, one row twice, the cache's first and last rows, all valid.
    """
    full = dsa_lists.uniform(11, seed, rows=pages * 64, device=device).indices
    last = pages * 64 - 1
    full[0] = -1
    full[1, :777], full[1, 778:] = -1, -1
    full[2, 1:] = -1
    full[3, :-1] = -1
    full[4, :2000] = -1
    full[5, 100:] = -1
    full[6, ::2] = -1
    full[7] = full[7, 0].clone()
    full[8, 1000], full[8, 1001:] = full[8, 3].clone(), -1
    full[9, 0], full[9, 1], full[9, 2:] = 0, last, -1
    return problem(full, seed, pages)


# endregion
