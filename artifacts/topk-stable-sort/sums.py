"""The first half: which kernel adds the columns of `[64, N]`, in which order, and what changes that.

Each function is one experiment and records what it finds. Sums are compared bit for bit.
"""

import random
from collections.abc import Callable, Iterator

import torch
from kernel import sum_ragged, sum_rows
from model import Reduction, ordered_sum, reduction
from reference import column_sum

ROWS = 64
WIDEST = 8192
HEIGHTS = (1, 4)  # Lanes to a column that ATen uses for 64 rows and two columns or more.
SHOWN = (1, 2, 3, 4, 16, 31, 32, 63, 64, 126, 127, 128, 129, 130, 1000, 4096, 6001, 8192)


def predicted(run, rows: int, columns: int) -> Reduction:
    """The model's launch for a contiguous matrix on this run's device."""
    if not run.on_gpu:
        return reduction(rows, columns)
    count = torch.cuda.get_device_properties(run.device).multi_processor_count
    return reduction(rows, columns, multiprocessors=count)


def dispatch(run):
    """Which kernel, which block: as reported, and as the model predicts, for each width."""
    flat = torch.randn(ROWS * WIDEST if run.on_gpu else 0, device=run.device)
    widths = range(1, WIDEST + 1)
    seen = run.launches(lambda: [flat[: ROWS * n].view(ROWS, n).sum(0) for n in widths])
    seen = [launch for launch in seen if "reduce_kernel" in launch.name]
    if not seen:
        return
    wrong = {"reported template": 0, "reported block": 0, "model": 0}
    for width, launch in zip(widths, seen, strict=True):
        vector = next(size for size in (4, 2, 1) if width % size == 0)
        guess = predicted(run, ROWS, width)
        wrong["reported template"] += f"reduce_kernel<{512 // vector}, {vector}," not in launch.name
        wrong["reported block"] += launch.block[:2] != (32, 16 // vector)
        shape = (launch.block[:2], launch.grid[:2])
        wrong["model"] += guess.template not in launch.name or (guess.block, guess.grid) != shape
        if width in SHOWN:
            height = {"unit": "threads", "subject": "torch.sum", "rows": ROWS, "width": width}
            run.count("block_height", launch.block[1], **height)
    for subject, count in wrong.items():
        run.count("mismatches", count, unit="widths", subject=subject, rows=ROWS, widths="all")


def widths_of(run) -> dict[str, list[int]]:
    """The widths from 2 on, by what decides the order of additions."""
    classes: dict[str, list[int]] = {"below-128": [], "4k": [], "4k+2": [], "odd": []}
    for n in run.sizes(full=range(2, WIDEST + 1), tiny=(2, 3, 5, 8, 126, 127, 128, 129, 130)):
        key = "below-128" if n < 128 else ("4k", "odd", "4k+2", "odd")[n % 4]
        classes[key].append(n)
    return classes


class Widths:
    """Random columns, and for every width the sum of that many of them in the model's order."""

    def __init__(self, run) -> None:
        self.run = run
        self.classes = widths_of(run)
        widths = [n for each in self.classes.values() for n in each]
        draw = torch.Generator(run.device).manual_seed(run.seed)
        self.matrix = torch.randn(ROWS, max(widths), generator=draw, device=run.device)
        self.heights = {n: predicted(run, ROWS, n).height for n in widths}
        self.sums = {height: ordered_sum(self.matrix, height) for height in HEIGHTS}

    def count(self, subject: str, total: Callable[[int], torch.Tensor]) -> None:
        """Count the widths at which `total(n)` is not the model's sum of the first n columns."""
        for name, widths in self.classes.items():
            differs = [(total(n) != self.sums[self.heights[n]][:n]).any() for n in widths]
            wrong = int(torch.stack(differs).sum())
            sizes = {"rows": ROWS, "widths": name}
            self.run.count("mismatches", wrong, unit="widths", subject=subject, **sizes)


def changed_bits(run):
    """Widths at which `torch.sum`, of the same numbers laid out otherwise, changes a bit."""
    if not run.on_gpu:
        return
    widths = Widths(run)
    buffer = torch.empty(ROWS * (WIDEST + 8), device=run.device)

    def lay(n: int, stride: int, offset: int = 0) -> torch.Tensor:
        view = buffer[offset : offset + ROWS * stride].view(ROWS, stride)
        view[:, :n].copy_(widths.matrix[:, :n])
        return view

    layouts = {
        "model": lambda n: lay(n, n).sum(0),
        "padded to 4k": lambda n: lay(n, n + -n % 4).sum(0)[:n],
        "padded to 4k+2": lambda n: lay(n, n + (2 - n) % 4).sum(0)[:n],
        "padded to 4k, sliced first": lambda n: lay(n, n + -n % 4)[:, :n].sum(0),
        "row stride + 1": lambda n: lay(n, n + 1)[:, :n].sum(0),
        "row stride + 4": lambda n: lay(n, n + 4)[:, :n].sum(0),
        "base + 1": lambda n: lay(n, n, offset=1).sum(0),
    }
    for subject, total in layouts.items():
        widths.count(subject, total)


def own_order(run):
    """Our kernel, in the model's order and in the one order that was reported, at every width."""
    widths = Widths(run)
    widths.count("our kernel", lambda n: sum_rows(widths.matrix[:, :n], widths.heights[n]))
    widths.count("four lanes always", lambda n: sum_rows(widths.matrix[:, :n], 4))


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
    for batch, width in run.sizes(full=[(8, 4096), (31, 4096), (31, 8192)], tiny=[(3, 131)]):
        _ragged(run, batch, width)


def _ragged(run, batch: int, width: int):
    """Bits first, then time."""
    lengths = ragged_lengths(run, batch, width, width // 2)
    heights = [predicted(run, ROWS, n).height for n in lengths]
    on_device = torch.tensor([lengths, heights], dtype=torch.int32, device=run.device)
    shared = (on_device[1] > 1).int()

    def cut(padded):
        return tuple(row[:n] for row, n in zip(padded, lengths, strict=True))

    subjects = {
        "one sum an item": lambda flat, _: tuple(item.sum(0) for item in items(flat, lengths)),
        "one launch": lambda _, padded: cut(sum_ragged(padded, on_device[0], shared)),
        "padded torch.sum": lambda _, padded: cut(padded.sum(1)),
    }
    workload = {"batch": batch, "length": width, "rows": ROWS}
    case = matrices(lengths, width, run.seed, run.device)
    pairs = zip(items(case[0], lengths), heights, strict=True)
    expected = [item.sum(0) if run.on_gpu else ordered_sum(item, height) for item, height in pairs]
    for subject in ("one launch", "padded torch.sum") if run.on_gpu else ("one launch",):
        found = zip(subjects[subject](*case), expected, strict=True)
        wrong = sum(int((one != two).any()) for one, two in found)
        run.count("mismatches", wrong, unit="items", subject=subject, **workload)
    needed = 4 * (ROWS + 1) * sum(lengths)
    run.compare(
        subjects=subjects,
        reference=lambda flat, _: tuple(column_sum(item) for item in items(flat, lengths)),
        inputs=lambda seed: matrices(lengths, width, seed, run.device),
        tolerance=1e-5,
        traffic=dict.fromkeys(subjects, needed)
        | {"padded torch.sum": 4 * (ROWS + 1) * batch * width},
        samples=11,
        **workload,
    )


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
