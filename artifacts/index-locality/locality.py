"""What an index list looks like, before anything is optimised: `python -m locality FILE`.

Prints how many rows each token lists, where its padding stands, whether its rows are in order and in
how many runs, which pages they touch, what tokens share, and which splits would find only padding.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from index_file import Unusable, read_indices
from torch import Tensor

PAGE, SPLITS = 64, 8
PAGE_AT_MOST, SPLITS_AT_MOST = 2**31 - 1, 2**16 - 1
DESCRIPTION = "Say what index lists look like: rows, padding, order, pages, sharing, idle splits."


@dataclass(frozen=True)
class Facts:
    """Of one table of lists. What is one number a token is a list; `run_lengths` is one a run.

    A run is rows that follow each other by one, in neighbouring places of a list. A list is in order
    if its rows never fall, whatever padding stands between them.
    """

    tokens: int
    places: int
    valid: list[int]
    padding: Counter[str]
    in_order: int
    runs: list[int]
    run_lengths: list[int]
    pages: list[int]
    all_pages: int
    unique_rows: int
    shared_rows: int
    repeated_rows: int
    splits: int
    padding_splits: list[int]

    @property
    def rows(self) -> int:
        """Rows that all lists name together."""
        return sum(self.valid)

    @property
    def sharing(self) -> float:
        """How often a row is listed, on average; 0 where none is."""
        return self.rows / self.unique_rows if self.unique_rows else 0.0


# region: facts
def facts_of(indices: Tensor, *, page: int = PAGE, splits: int = SPLITS) -> Facts:
    """Return the facts of integer lists [tokens, places], -1 padding, on any device.

    Raises Unusable if `splits` does not divide the places, or for a page without rows.
    """
    indices = indices.cpu().long()
    tokens, places = indices.shape
    check_cut(places, page, splits)
    listed = [row[row >= 0] for row in indices]
    each = [row.unique() for row in listed]
    together, owners = torch.cat(each).unique(return_counts=True)
    lengths = [_run_lengths(row) for row in indices]
    empty = (indices < 0).view(tokens, splits, places // splits).all(dim=2)
    return Facts(
        tokens=tokens,
        places=places,
        valid=[len(row) for row in listed],
        padding=Counter(_padding(row) for row in indices),
        in_order=sum(bool((row[1:] >= row[:-1]).all()) for row in listed),
        runs=[len(row) for row in lengths],
        run_lengths=torch.cat(lengths).tolist(),
        pages=[len((row // page).unique()) for row in each],
        all_pages=len((together // page).unique()),
        unique_rows=len(together),
        shared_rows=int((owners > 1).sum()),
        repeated_rows=sum(len(row) - len(once) for row, once in zip(listed, each, strict=True)),
        splits=splits,
        padding_splits=empty.sum(dim=1).tolist(),
    )


def _run_lengths(row: Tensor) -> Tensor:
    """Return the lengths of the runs of one list, in its order."""
    valid = row >= 0
    follows = valid[1:] & valid[:-1] & (row[1:] == row[:-1] + 1)
    starts = valid.clone()
    starts[1:] &= ~follows
    number = starts.cumsum(0)[valid] - 1
    return torch.bincount(number, minlength=int(starts.sum()))


def _padding(row: Tensor) -> str:
    """Say where the padding of one list stands."""
    places = (row >= 0).nonzero().flatten()
    if len(places) in (0, len(row)):
        return "no row" if len(places) == 0 else "none"
    first, last = int(places[0]), int(places[-1])
    if last - first + 1 > len(places):
        return "interleaved"
    if first == 0:
        return "last"
    return "first" if last == len(row) - 1 else "both ends"


# endregion


def check_cut(places: int, page: int, splits: int) -> None:
    """Raise Unusable unless a list can be cut so."""
    if page < 1:
        raise Unusable(f"--page {page}: use 1 row a page or more")
    if page > PAGE_AT_MOST:
        raise Unusable(f"--page {page}: use {PAGE_AT_MOST} rows a page or fewer")
    if splits > SPLITS_AT_MOST:
        raise Unusable(f"--splits {splits}: use {SPLITS_AT_MOST} splits or fewer")
    if splits < 1 or places % splits:
        near = max(n for n in range(1, max(1, min(splits, places)) + 1) if places % n == 0)
        raise Unusable(f"--splits {splits}: does not divide {places} places; {near} does")


def report(facts: Facts, *, page: int = PAGE) -> str:
    """Return the facts as a person reads them, one line each."""
    share = facts.rows / (facts.tokens * facts.places)
    empty, cut = sum(facts.padding_splits), facts.tokens * facts.splits
    where = ", ".join(f"{place} in {count}" for place, count in facts.padding.most_common())
    lines = {
        "lists": f"{facts.tokens} tokens of {facts.places} places",
        "rows a token": f"{_spread(facts.valid)} (least / median / most); {share:.2%} of all places",
        "padding": f"{where} of {facts.tokens} tokens",
        "in order": f"{facts.in_order} of {facts.tokens} tokens",
        "runs a token": f"{_spread(facts.runs)}; of {_spread(facts.run_lengths)} rows",
        f"pages of {page} a token": f"{_spread(facts.pages)}; {facts.all_pages} in all",
        "different rows": f"{facts.unique_rows} of {facts.rows} listed, {facts.sharing:.2f} times "
        f"each; {facts.shared_rows} by several tokens, {facts.repeated_rows} repeated in a list",
        "only padding": f"{empty} of {cut} splits ({empty / cut:.1%}); "
        f"{_spread(facts.padding_splits)} of {facts.splits} a token",
    }
    return "\n".join(f"{name + ':':<20} {text}" for name, text in lines.items())


def _spread(values: Sequence[int]) -> str:
    """Return the least, the median and the most."""
    if not values:
        return "none"
    return f"{min(values)} / {median(values):g} / {max(values)}"


def median(values: Sequence[int]) -> float:
    """Return the middle of so many values as there may be, or the mean of the two middle ones; 0 of none."""
    if not values:
        return 0.0
    ordered = torch.tensor(values).sort().values
    last = len(values) - 1
    return (int(ordered[last // 2]) + int(ordered[len(values) // 2])) / 2


def main(words: Sequence[str] | None = None) -> int:
    """Print the report of a file; 2, and one line on the error output, if it cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m locality", description=DESCRIPTION)
    parser.add_argument("file", type=Path, help="a tensor saved with torch (.pt) or numpy (.npy)")
    parser.add_argument("--page", type=int, default=PAGE, help="rows of a page (%(default)s)")
    parser.add_argument("--splits", type=int, default=SPLITS, help="of a list (%(default)s)")
    parser.add_argument("--name", help="which tensor, where the file holds several")
    asked = parser.parse_args(words)
    try:
        indices = read_indices(asked.file, asked.name)
        facts = facts_of(indices, page=asked.page, splits=asked.splits)
    except Unusable as problem:
        print(problem, file=sys.stderr)  # noqa: T201 - a command says what is wrong
        return 2
    print(report(facts, page=asked.page))  # noqa: T201 - and prints its report
    return 0


if __name__ == "__main__":
    sys.exit(main())
