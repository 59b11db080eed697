"""The first half: which kernel adds the columns of `[64, N]`, in which order, and what changes that.

Each function is one experiment and records what it finds. Sums are compared bit for bit.
`changed` is the fraction of the widths tested at which a bit of the sum changed.
"""

import random
from collections.abc import Callable, Iterator

import torch
from kernel import pad_by_kernel, sum_ragged, sum_rows, sum_twice, sum_where_they_lie
from model import Reduction, ordered_sum, reduction
from reference import column_sum

ROWS = 64
WIDEST = 8192
EVERY = 1024  # Every width up to here; one of seven beyond, other ones in each process.
HEIGHTS = (1, 4)  # Lanes to a column that ATen uses for 64 rows and two columns or more.
SHOWN = (1, 2, 4, 16, 31, 33, 64, 66, 124, 128, 130, 4096, 6001)


def predicted(run, rows: int, columns: int, batch: int = 1) -> Reduction:
    """The model's launch for a contiguous matrix on this run's device."""
    if not run.on_gpu:
        return reduction(rows, columns, batch=batch)
    count = torch.cuda.get_device_properties(run.device).multi_processor_count
    return reduction(rows, columns, batch=batch, multiprocessors=count)


def tested_widths(run) -> list[int]:
    """Return the widths that this process tests, from 1 on."""
    beyond = range(EVERY + 1 + run.seed % 7, WIDEST + 1, 7)
    return run.sizes(
        full=[*range(1, EVERY + 1), *beyond], tiny=(1, 2, 3, 5, 8, 126, 127, 128, 129, 130)
    )


def dispatch(run):
    """Which kernel, which block: as reported, and as the model predicts, for each width."""
    widths = sorted({*tested_widths(run), *SHOWN})
    flat = torch.randn(ROWS * WIDEST if run.on_gpu else 0, device=run.device)
    seen = run.launches(lambda: [flat[: ROWS * n].view(ROWS, n).sum(0) for n in widths])
    seen = [launch for launch in seen if "reduce_kernel" in launch.name]
    if not seen:
        return
    wrong = {name: [[], []] for name in ("reported template", "reported block", "model")}
    for width, launch in zip(widths, seen, strict=True):
        vector = next(size for size in (4, 2, 1) if width % size == 0)
        guess = predicted(run, ROWS, width)
        shape = (launch.block[:2], launch.grid[:2])
        template = f"reduce_kernel<{512 // vector}, {vector}," not in launch.name
        wrong["reported template"][width >= 128].append(template)
        wrong["reported block"][width >= 128].append(launch.block[:2] != (32, 16 // vector))
        modelled = guess.template in launch.name and (guess.block, guess.grid) == shape
        wrong["model"][width >= 128].append(not modelled)
        if width in SHOWN:
            height = {"unit": "threads", "subject": "torch.sum", "rows": ROWS, "width": width}
            run.count("block_height", launch.block[1], **height)
    for subject, parts in wrong.items():
        for name, found in zip(("below-128", "from-128"), parts, strict=True):
            sizes = {"unit": "widths", "subject": subject, "rows": ROWS, "widths": name}
            run.count("launch_mismatches", sum(found), **sizes)
            run.count("launches_tested", len(found), **sizes)


class Widths:
    """Random columns, and for every width the sum of that many of them in the model's order."""

    def __init__(self, run) -> None:
        self.run = run
        widths = [n for n in tested_widths(run) if n > 1]
        self.classes: dict[str, list[int]] = {"below-125": [], "4k": [], "4k+2": [], "odd": []}
        for n in widths:
            self.classes["below-125" if n < 125 else ("4k", "odd", "4k+2", "odd")[n % 4]].append(n)
        source = torch.Generator(run.device).manual_seed(run.seed)
        self.matrix = torch.randn(ROWS, max(widths), generator=source, device=run.device)
        self.heights = {n: predicted(run, ROWS, n).height for n in widths}
        self.sums = {height: ordered_sum(self.matrix, height) for height in HEIGHTS}

    def changed(self, subject: str, total: Callable[[int], torch.Tensor]) -> None:
        """Record at which part of the widths `total(n)` is not the sum of n columns alone."""
        for name, widths in self.classes.items():
            differs = [(total(n) != self.sums[self.heights[n]][:n]).any() for n in widths]
            wrong = int(torch.stack(differs).sum())
            sizes = {"subject": subject, "rows": ROWS, "widths": name}
            self.run.count("changed", wrong / len(widths), unit="fraction", **sizes)
            self.run.count("mismatches", wrong, unit="widths", **sizes)
            self.run.count("tested", len(widths), unit="widths", **sizes)


def changed_bits(run):
    """Widths at which `torch.sum`, of the same numbers laid out otherwise, changes a bit."""
    if not run.on_gpu:
        return
    widths = Widths(run)
    buffer = torch.zeros(ROWS * (WIDEST + 8), device=run.device)

    def lay(n: int, stride: int, offset: int = 0) -> torch.Tensor:
        view = buffer[offset : offset + ROWS * stride].view(ROWS, stride)
        view[:, :n].copy_(widths.matrix[:, :n])
        return view

    layouts = {
        "torch.sum": lambda n: lay(n, n).sum(0),
        "padded to 4k": lambda n: lay(n, n + -n % 4).sum(0)[:n],
        "padded to 4k+2": lambda n: lay(n, n + (2 - n) % 4).sum(0)[:n],
        "padded to 4k, sliced first": lambda n: lay(n, n + -n % 4)[:, :n].sum(0),
        "row stride + 1": lambda n: lay(n, n + 1)[:, :n].sum(0),
        "row stride + 4": lambda n: lay(n, n + 4)[:, :n].sum(0),
        "base + 1": lambda n: lay(n, n, offset=1).sum(0),
    }
    for subject, total in layouts.items():
        widths.changed(subject, total)


def own_order(run):
    """Our kernel, in the model's order and in the one order that was reported, at every width."""
    widths = Widths(run)
    widths.changed("own kernel", lambda n: sum_rows(widths.matrix[:, :n], widths.heights[n]))
    widths.changed("four lanes always", lambda n: sum_rows(widths.matrix[:, :n], 4))


def same_width(run):
    """One `torch.sum` over a batch of equal widths, against one for each item."""
    classes = {
        "4k-below-125": range(8, 125, 4),
        "others": (31, 62, 127, 128, 130, 1001, 4096, 6001),
    }
    batch = 31
    for name, widths in classes.items() if run.on_gpu else ():
        changed = modelled = 0
        for n in widths:
            matrices = torch.randn(batch, ROWS, n, device=run.device)
            alone = torch.stack([matrix.sum(0) for matrix in matrices])
            together = matrices.sum(1)
            height = predicted(run, ROWS, n, batch).height
            guess = torch.stack([ordered_sum(matrix, height) for matrix in matrices])
            changed += bool((together != alone).any())
            modelled += bool((together != guess).any())
        sizes = {"rows": ROWS, "batch": batch, "widths": name}
        run.count(
            "changed", changed / len(widths), unit="fraction", subject="batched torch.sum", **sizes
        )
        run.count("mismatches", modelled, unit="widths", subject="model", **sizes)


def more_rows(run):
    """The model against `torch.sum` at other row counts, some of them split over blocks."""
    for rows in run.sizes(full=(37, 128, 512, 2048, 4096), tiny=()):
        wrong = 0
        for width in (2, 31, 64, 130, 1000, 4095, 4096, 8192):
            matrix = torch.randn(rows, width, device=run.device)
            guess = ordered_sum(matrix, *predicted(run, rows, width).order)
            wrong += int((matrix.sum(0) != guess).any())
        run.count("mismatches", wrong, unit="widths", subject="model", rows=rows, widths="eight")


def ragged(run):
    """One sum an item, against one launch for all of them."""
    for batch, width in run.sizes(full=[(8, 4096), (31, 4096), (31, 8192)], tiny=[(3, 132)]):
        _ragged(run, batch, width)


def _ragged(run, batch: int, width: int):
    """Bits first, then time."""
    lengths = ragged_lengths(run, batch, width, width // 2)
    heights = [predicted(run, ROWS, n).height for n in lengths]
    workload = {"batch": batch, "length": width, "rows": ROWS}
    subjects = ragged_sums(run, lengths, heights)
    case = matrices(lengths, width, run.seed, run.device)
    pairs = zip(items(case[0], lengths), heights, strict=True)
    expected = [item.sum(0) if run.on_gpu else ordered_sum(item, height) for item, height in pairs]
    for subject in list(subjects)[1:] if run.on_gpu else [n for n in subjects if "own" in n]:
        found = zip(subjects[subject](*case), expected, strict=True)
        wrong = sum(int((one != two).any()) for one, two in found)
        run.count("mismatches", wrong, unit="items", subject=subject, **workload)
    needed = 4 * (ROWS + 1) * sum(lengths)
    whole = 4 * (ROWS + 1) * batch * width
    run.compare(
        subjects=subjects,
        reference=lambda flat, _: tuple(column_sum(item) for item in items(flat, lengths)),
        inputs=lambda seed: matrices(lengths, width, seed, run.device),
        tolerance=1e-5,
        traffic=dict.fromkeys(subjects, needed) | {"padded torch.sum": whole},
        samples=11,
        **workload,
    )


def ragged_sums(run, lengths: list[int], heights: list[int]) -> dict[str, Callable]:
    """Six ways from `(flat, padded)` to one sum an item; each reads one of the two.

    To fill, a row of an item is a row like any other: `pad_by_kernel` lays out `64 * batch` of them.
    """
    on_device = torch.tensor([lengths, heights], dtype=torch.int32, device=run.device)
    shared, width = (on_device[1] > 1).int(), max(lengths)
    starts = torch.tensor([0, *lengths], device=run.device).cumsum(0)
    each_row = torch.tensor([0, *(n for n in lengths for _ in range(ROWS))], device=run.device)
    row_starts = each_row.cumsum(0)

    def cut(padded):
        return tuple(row[:n] for row, n in zip(padded, lengths, strict=True))

    def ragged(flat):
        return sum_where_they_lie(flat, starts, shared, width, ROWS)

    def filled(flat):
        padded = pad_by_kernel(flat, row_starts, width).view(len(lengths), ROWS, width)
        return sum_ragged(padded, on_device[0], shared)

    return {
        "one sum an item": lambda flat, _: tuple(item.sum(0) for item in items(flat, lengths)),
        "own ragged kernel": lambda _, padded: cut(sum_ragged(padded, on_device[0], shared)),
        "own ragged kernel, from ragged data": lambda flat, _: cut(ragged(flat)),
        "own ragged kernel, filled first": lambda flat, _: cut(filled(flat)),
        "two torch.sum": lambda _, padded: cut(sum_twice(padded, shared)),
        "padded torch.sum": lambda _, padded: cut(padded.sum(1)),
    }


def ragged_lengths(run, batch: int, longest: int, least: int) -> list[int]:
    """Row lengths from `least` to `longest`, the first the longest; other ones in each process."""
    draw = random.Random(run.seed)
    return [longest, *(draw.randint(least, longest) for _ in range(batch - 1))]


def items(flat: torch.Tensor, lengths: list[int]) -> Iterator[torch.Tensor]:
    """The contiguous `[64, n]` matrices that `flat` holds one after another."""
    parts = flat.split([ROWS * n for n in lengths])
    return (part.view(ROWS, n) for part, n in zip(parts, lengths, strict=True))


def matrices(lengths: list[int], width: int, seed: int, device: torch.device):
    """The same numbers as contiguous matrices one after another and as `[batch, 64, width]`."""
    draw = torch.Generator(device).manual_seed(seed)
    flat = torch.randn(ROWS * sum(lengths), generator=draw, device=device)
    padded = torch.zeros(len(lengths), ROWS, width, device=device)
    for target, item in zip(padded, items(flat, lengths), strict=True):
        target[:, : item.shape[1]].copy_(item)
    return flat, padded
