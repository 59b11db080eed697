"""What ATen's source says that the GPU will do: the order of additions, and the order of ties.

A model, not a reference: `reproduce.py` counts where the GPU disagrees with it.
Source: PyTorch 2.11, `aten/src/ATen/native/cuda/`, the files `Reduce.cuh` (`setReduceConfig`,
`thread_reduce_impl`, `block_y_reduce`, `global_reduce`), `TensorTopK.cu` (`gatherTopK`),
`Sort.cu` (`sortKeyValueInplace`) and `SortUtils.cuh` (`bitonicSort`).
"""

from dataclasses import dataclass

import torch

ACCUMULATORS = 4  # vt0 in Reduce.cuh: each thread keeps four sums, for four loads in flight.
THREADS = 512  # mnt_wrapper<float>::MAX_NUM_THREADS; divided by the vector width.
WARP = 32
SPLIT_AT = 16  # A warp shares its column only if each thread keeps at least 16 rows.
SPLIT_ALWAYS = 256  # max_values_per_thread: from here on, blocks may share a column too.
BITONIC = 32  # The bitonic network's fixed size: it sorts the top-k for k <= 32.


@dataclass(frozen=True, slots=True)
class Reduction:
    """How ATen lays the sum of an fp32 matrix over its rows out on the GPU."""

    vector: int  #: Columns that one thread loads at a time: 4, 2 or 1.
    block: tuple[int, int]  #: Threads of a block, x and y.
    grid: tuple[int, int]  #: Blocks, x over columns and y over rows.
    height: int  #: Threads that share one column in a block.

    @property
    def template(self) -> str:
        """The kernel's name as a profiler shows it, up to its two leading arguments."""
        return f"reduce_kernel<{THREADS // self.vector}, {self.vector},"

    @property
    def order(self) -> tuple[int, int]:
        """All that decides the bits of the sum: threads to a column, and blocks to a column."""
        return self.height, self.grid[1]


def reduction(
    rows: int,
    columns: int,
    *,
    stride: int | None = None,
    offset: int = 0,
    batch: int = 1,
    multiprocessors: int = 132,
) -> Reduction:
    """Predict the launch of `matrix.sum(-2)` for fp32 `[batch, rows, columns]`, columns adjacent.

    `stride` is the distance between rows and `offset` that of the first element from a 16-byte
    boundary, both in elements; items of a batch lie `rows * stride` apart.
    Raises `ValueError` for one column of 128 rows or more, which another code path sums.
    """
    stride = columns if stride is None else stride
    if columns == 1:
        return _one_column(rows, batch)
    vector = next(n for n in (4, 2, 1) if columns % n == stride % n == offset % n == 0)
    threads = THREADS // vector
    across = _power_below(min(columns * batch // vector, threads))
    down = _power_below(min(rows, threads))
    width = min(across, WARP)
    height = min(down, threads // width)
    width = min(across, threads // height)
    shared = rows >= min(height * SPLIT_AT, SPLIT_ALWAYS)
    step = width if shared else width * height
    grid = -(-(columns * batch // vector) // step)
    blocks = _blocks_per_column(rows, height, width, grid, multiprocessors) if shared else 1
    return Reduction(vector, (width, height), (grid, blocks), height if shared else 1)


def _one_column(rows: int, batch: int) -> Reduction:
    """One column is a row: x threads share it, and halve their number as y threads do."""
    if rows >= WARP * ACCUMULATORS or batch > 1:
        message = f"one column of {rows} rows, {batch} times: only 127 rows, once, are modelled"
        raise ValueError(message)
    width = _power_below(rows)
    return Reduction(1, (width, 1), (1, 1), width)


def _blocks_per_column(rows: int, height: int, width: int, grid: int, multiprocessors: int) -> int:
    """Blocks that share one column: more than one only for many rows and few columns."""
    per_thread = -(-rows // height)
    wanted = multiprocessors * (2048 // (width * height))
    if per_thread < SPLIT_ALWAYS or grid > wanted:
        return 1
    return max(min(-(-wanted // grid), -(-per_thread // SPLIT_AT)), -(-per_thread // SPLIT_ALWAYS))


def _power_below(number: int) -> int:
    return 1 << (max(number, 1).bit_length() - 1)


def ordered_sum(matrix: torch.Tensor, height: int, blocks: int = 1) -> torch.Tensor:
    """Sum fp32 `[rows, columns]` over rows in ATen's order, one rounding an addition.

    Row `lane + (4 t + i) * lanes` joins accumulator `i` of its lane at step `t`, where
    `lanes = height * blocks`; a lane adds its accumulators from left to right; lanes of a block
    meet by halves; blocks are then added in the same two steps.
    """
    partial = _accumulate(matrix, height * blocks, ACCUMULATORS)
    total = partial[0]
    for accumulator in partial[1:]:
        total = total + accumulator
    total = _halve(total.view(blocks, height, -1))
    if blocks == 1:
        return total[0]
    return _halve(_accumulate(total, height, 1))[0]


def _accumulate(matrix: torch.Tensor, lanes: int, accumulators: int) -> torch.Tensor:
    """Return `[accumulators, lanes, columns]`: the running sums of every thread."""
    rows, columns = matrix.shape
    missing = -rows % (lanes * accumulators)
    padded = torch.nn.functional.pad(matrix, (0, 0, 0, missing))
    steps = padded.view(-1, accumulators, lanes, columns)
    total = torch.zeros_like(steps[0])
    for step in steps:
        total = total + step
    return total


def _halve(lanes: torch.Tensor) -> torch.Tensor:
    """Add the upper half of `[n, lanes, columns]` to the lower until one lane is left."""
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]


def gathered(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Indices `[batch, k]` as `gatherTopK` leaves them: those above the k-th value, then its ties.

    Each group is in order of index. Holds for scores without NaN and without both zeros.
    """
    ranked, indices = torch.sort(scores, dim=-1, descending=True, stable=True)
    chosen = indices[:, :k].sort(dim=-1).values
    tied = scores.gather(-1, chosen) == ranked[:, k - 1 : k]
    return chosen.gather(-1, torch.sort(tied.int(), dim=-1, stable=True).indices)


def bitonic_topk(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Predict `torch.topk(scores, k).indices` for `2 <= k <= 32`: the gather, then the network.

    The network swaps equal neighbours in an ascending comparison, hence it is not stable.
    """
    indices = gathered(scores, k)
    keys = scores.gather(-1, indices)
    keys = torch.nn.functional.pad(keys, (0, BITONIC - k))
    indices = torch.nn.functional.pad(indices, (0, BITONIC - k))
    valid = (torch.arange(BITONIC, device=keys.device) < k).expand(keys.shape)
    lanes = torch.arange(BITONIC // 2, device=keys.device)
    size = 2
    while size <= BITONIC:
        direction = (lanes & (size // 2)) != 0 if size < BITONIC else torch.zeros_like(lanes) != 0
        stride = size // 2
        while stride > 0:
            low = 2 * lanes - (lanes & (stride - 1))
            keys, indices, valid = _exchange((keys, indices, valid), low, low + stride, direction)
            stride //= 2
        size *= 2
    return indices[:, :k]


def _exchange(
    columns: tuple[torch.Tensor, ...],
    low: torch.Tensor,
    high: torch.Tensor,
    direction: torch.Tensor,
) -> list[torch.Tensor]:
    """Swap positions `low` and `high` of every row where `bitonicSwap` does."""
    keys, _, valid = columns
    ordered = ((keys[:, low] > keys[:, high]) & valid[:, low]) | ~valid[:, high]
    swap = ordered == direction
    result = []
    for column in columns:
        changed = column.clone()
        changed[:, low] = torch.where(swap, column[:, high], column[:, low])
        changed[:, high] = torch.where(swap, column[:, low], column[:, high])
        result.append(changed)
    return result
