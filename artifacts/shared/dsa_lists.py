"""The lists of rows that sparse attention is timed on: every family, from a seed.

The counts of `CONTEST` are those of 23 public workloads of the operation, as published; the rest are
families that each change one thing: how far the rows of a token lie apart, how many tokens share
them, and in which order a list holds them. Everything is drawn on the device that is asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from shared.dsa import PAGE, PAGES, WIDTH, traffic
from torch import Tensor

ROWS = PAGES * PAGE
LONGEST = 5824  # tokens of context behind a full list of a public workload

# region: counts
CONTEST = [
    [2], [18, 11], [33, 52], [63, 9], [6, 337], [17, 13], [92, 48], [288, 4], [18, 19],
    [92, 48, 1044, 14, 411, 30, 16, 8], [18, 19, 1002, 31, 11, 316, 24, 2],
    [33, 52, 72, 17, 18, 401, 1089], [63, 9, 2048, 212, 11, 25, 6, 50], [6, 9, 9, 14, 1639, 71],
    [18, 11, 2048, 20, 25, 45, 135, 326], [19, 20, 32, 12, 25, 3],
    [288, 4, 1884, 21, 136, 2048, 42, 335], [19, 12, 2048, 21, 26, 46, 136],
    [35, 54, 74, 19, 20, 403, 1091, 1], [8, 11, 11, 16, 1641, 73, 1, 1],
    [17, 13, 1887, 16, 180, 1986, 413, 1], [143, 139, 2013, 142, 306, 539],
    [415, 131, 2011, 148, 263, 169, 462],
]  # fmt: skip
# endregion


@dataclass(frozen=True)
class Lists:
    """`indices` is int32 [T, width]; -1 is padding."""

    indices: Tensor

    @property
    def valid(self) -> Tensor:
        """How many rows each token lists: int64 [T]."""
        return (self.indices >= 0).sum(dim=1)

    @property
    def rows(self) -> int:
        """How many rows all tokens list together."""
        return int(self.valid.sum())

    @property
    def unique_rows(self) -> int:
        """How many different rows all tokens list."""
        return int(self.indices[self.indices >= 0].unique().numel())

    @property
    def bytes(self) -> int:
        """The least bytes that a call with these lists must move."""
        return traffic(len(self.indices), self.unique_rows, self.indices.shape[1])


def contest(
    case: int, seed: int, *, rows: int = ROWS, width: int = WIDTH, device: object = None
) -> Lists:
    """Make public workload number `case`: each token an own run of rows that starts with a page.

    The run stands in its order, padding behind it; a full list is a random choice, in random order,
    from the run of a longer context. Counts beyond `width` are cut to it.
    """
    return _runs([min(count, width) for count in CONTEST[case]], seed, rows, width, device)


def contest_like(
    tokens: int, seed: int, *, rows: int = ROWS, width: int = WIDTH, device: object = None
) -> Lists:
    """Make lists like the public ones for any number of tokens: counts drawn from all of theirs.

    The counts depend on `tokens` alone, so that every seed is the same amount of work.
    """
    pool = torch.tensor([count for counts in CONTEST for count in counts])
    picked = torch.randint(len(pool), (tokens,), generator=torch.Generator().manual_seed(tokens))
    return _runs(pool[picked].clamp(max=width).tolist(), seed, rows, width, device)


def contiguous(
    tokens: int, seed: int, *, rows: int = ROWS, width: int = WIDTH, device: object = None
) -> Lists:
    """Make full lists, each a run of its own that starts with a page, in its order."""
    spans = [width] * tokens
    starts = _starts(spans, seed, rows).to(device)
    return Lists((starts[:, None] + torch.arange(width, device=device)).int())


def uniform(
    tokens: int, seed: int, *, rows: int = ROWS, width: int = WIDTH, device: object = None
) -> Lists:
    """Make full lists of rows drawn from all `rows`, none twice in a list."""
    generator = _generator(seed, device)
    return Lists(torch.stack([_some(rows, width, generator) for _ in range(tokens)]).int())


def clustered(
    tokens: int, seed: int, *, block: int, rows: int = ROWS, width: int = WIDTH,
    device: object = None,
) -> Lists:  # fmt: skip
    """Make full lists of blocks of `block` consecutive rows, the blocks in random order."""
    generator = _generator(seed, device)
    blocks = [_some(rows // block, width // block, generator) for _ in range(tokens)]
    firsts = torch.stack(blocks)[:, :, None] * block
    return Lists((firsts + torch.arange(block, device=device)).flatten(1).int())


def shared(
    tokens: int, seed: int, *, rows: int = ROWS, width: int = WIDTH, device: object = None
) -> Lists:
    """Make one full random list, the same for every token."""
    one = uniform(1, seed, rows=rows, width=width, device=device).indices
    return Lists(one.repeat(tokens, 1))


FAMILIES: dict[str, Callable[..., Lists]] = {
    "contest-like": contest_like,
    "contiguous": contiguous,
    "uniform": uniform,
    "clustered-4": lambda *words, **named: clustered(*words, block=4, **named),
    "clustered-16": lambda *words, **named: clustered(*words, block=16, **named),
    "clustered-64": lambda *words, **named: clustered(*words, block=64, **named),
    "shared": shared,
}


def shuffled(lists: Lists, seed: int) -> Lists:
    """Put the rows of each list, padding included, in random order."""
    generator = _generator(seed, lists.indices.device)
    keys = torch.rand(lists.indices.shape, device=lists.indices.device, generator=generator)
    return Lists(lists.indices.gather(1, keys.argsort(dim=1)))


def interleaved(lists: Lists) -> Lists:
    """Spread the padding of each list evenly among its rows, which keep their order.

    Row number i of a list with n rows goes to place floor(i · width / n).
    """
    found = torch.full_like(lists.indices, -1)
    for target, listed in zip(found, lists.indices, strict=True):
        present = listed[listed >= 0]
        if len(present):
            numbers = torch.arange(len(present), device=listed.device)
            target[numbers * len(listed) // len(present)] = present
    return Lists(found)


def sorted_pads_first(lists: Lists) -> Lists:
    """Sort each list; -1 comes first."""
    return Lists(lists.indices.sort(dim=1).values)


def sorted_pads_last(lists: Lists) -> Lists:
    """Sort each list, with its padding last."""
    last = torch.iinfo(torch.int32).max
    padded = lists.indices.masked_fill(lists.indices < 0, last).sort(dim=1).values
    return Lists(padded.masked_fill(padded == last, -1))


def _generator(seed: int, device: object) -> torch.Generator:
    return torch.Generator(device or "cpu").manual_seed(seed)


def _some(of: int, count: int, generator: torch.Generator) -> Tensor:
    if of < count:
        raise ValueError(f"{count} different rows cannot come from {of}: use a larger cache")
    return torch.randperm(of, device=generator.device, generator=generator)[:count]


def _runs(counts: list[int], seed: int, rows: int, width: int, device: object) -> Lists:
    """Make one list a token: a run of `counts` rows; a full list is chosen from a longer run."""
    generator = torch.Generator().manual_seed(seed)
    longest = LONGEST * width // WIDTH
    spans = [
        int(torch.randint(width + 1, longest + 1, (), generator=generator)) if full else count
        for count, full in ((count, count == width) for count in counts)
    ]
    indices = torch.full((len(counts), width), -1, dtype=torch.int32)
    for list_, start, span, count in zip(
        indices, _starts(spans, seed, rows), spans, counts, strict=True
    ):
        chosen = torch.arange(count) if count < width else _some(span, count, generator)
        list_[:count] = start + chosen
    return Lists(indices.to(device))


def _starts(spans: list[int], seed: int, rows: int) -> Tensor:
    """Place runs of `spans` rows at random, in random order, from page 1 on; none shares a page."""
    generator = torch.Generator().manual_seed(seed + 1)
    pages = torch.tensor([-(-span // PAGE) for span in spans])
    order = torch.randperm(len(spans), generator=generator)
    free = rows // PAGE - 1 - int(pages.sum())
    if free < 0:
        raise ValueError(f"runs of {sum(spans)} rows do not fit into {rows}: use a larger cache")
    gaps = torch.randint(free + 1, (len(spans),), generator=generator).sort().values
    before = pages[order].cumsum(0) - pages[order]
    starts = torch.empty(len(spans), dtype=torch.int64)
    starts[order] = (1 + gaps + before) * PAGE
    return starts
