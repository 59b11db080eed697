"""The second half: scores with every kind of tie, and where top-k and a stable sort part.

`TIES` names the kinds; each draws from the same normal and uniform numbers.
"""

from collections.abc import Callable, Iterator

import torch
from kernel import padded_sort, padded_topk
from model import BITONIC, bitonic_topk

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
NAN = {torch.float32: 0x7FC00000, torch.float16: 0x7E00, torch.bfloat16: 0x7FC0}
ONE_OF_TEN = 0.1


def hunt(run):
    """Rows whose top-k is not the stable sort's: in another order, or another set of indices."""
    for kind in TIES:
        for k in run.sizes(full=(1, 2, 8, 32, 33, 64, 256, 1000, 2048, 5000), tiny=(1, 8, 32)):
            counts = [torch.zeros(3, dtype=torch.int64, device=run.device)]
            for found, stable in _pairs(run, kind, k):
                order = (found != stable).any(-1)
                chosen = (found.sort(-1).values != stable.sort(-1).values).any(-1)
                counts.append(
                    torch.stack([order.sum(), chosen.sum(), torch.ones_like(order).sum()])
                )
            order, chosen, tested = torch.stack(counts).sum(0).tolist()
            for compared, wrong in {"order": order, "set": chosen}.items():
                sizes = {"ties": kind, "k": k, "tested": tested, "compared": compared}
                run.count("mismatches", wrong, unit="rows", subject="stable sort", **sizes)


def _pairs(run, kind: str, k: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Indices `[batch, k]` by top-k and by the stable sort, over dtypes, lengths and batches."""
    for dtype in FLOATS if kind in FLOAT_TIES else (*FLOATS, torch.int32):
        for length in run.sizes(full=(1000, 4096, 20000, 131073), tiny=(40,)):
            if k > length or (kind == "none" and dtype.itemsize == 2 and length > 20000):
                continue
            for batch in run.sizes(full=(1, 31), tiny=(3,)):
                scores = draw(kind, (batch, length), dtype, run.seed + length, run.device)
                shaped = scores[0] if batch == 1 else scores
                found, stable = padded_topk(shaped, k), padded_sort(shaped, k)
                yield found.view(batch, k), stable.view(batch, k)


def network(run):
    """How often a tie breaks the order, by how many different scores there are; and the model."""
    batch, length = 256, 1000
    source = torch.Generator(run.device).manual_seed(run.seed)
    for levels in run.sizes(full=(1, 16, 256, 4096, 65536, 1048576), tiny=()):
        for k in (2, 4, 8, 16, 32, 33):
            whole = torch.randint(levels, (batch, length), generator=source, device=run.device)
            scores = whole.float()
            found = padded_topk(scores, k)
            others = {"stable sort": padded_sort(scores, k), "second call": padded_topk(scores, k)}
            if k <= BITONIC:
                others["model"] = bitonic_topk(scores, k)
            sizes = {"batch": batch, "length": length, "levels": levels, "k": k}
            for subject, other in others.items():
                wrong = int((found != other).any(-1).sum())
                run.count("mismatches", wrong, unit="rows", subject=subject, **sizes)


def distinct(lengths: list[int], seed: int, device: torch.device) -> torch.Tensor:
    """Draw fp32 rows one after another: normal quantiles in random order, all distinct in a row."""
    source = torch.Generator(device).manual_seed(seed)
    ranks = (torch.randperm(n, generator=source, device=device).double() for n in lengths)
    rows = (torch.erfinv((2 * rank + 1) / rank.numel() - 1) * 2**0.5 for rank in ranks)
    return torch.cat([row.float() for row in rows])


def draw(
    kind: str, shape: tuple[int, int], dtype: torch.dtype, seed: int, device: torch.device
) -> torch.Tensor:
    """Draw `shape` scores whose ties are of one kind, a key of `TIES`."""
    source = torch.Generator(device).manual_seed(seed)
    normal = torch.randn(shape, generator=source, device=device)
    chance = torch.rand(shape, generator=source, device=device)
    return TIES[kind](normal, chance, dtype)


def _none(normal: torch.Tensor, _: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Ranks: as numbers where the type holds them all, otherwise as the bits of normal numbers."""
    rank = normal.argsort(-1)
    if dtype in (torch.float32, torch.int32):
        return rank.to(dtype)
    smallest = torch.tensor(torch.finfo(dtype).smallest_normal, dtype=dtype)
    return (rank + int(smallest.view(torch.int16))).to(torch.int16).view(dtype)


def _quantised(normal: torch.Tensor, _: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Whole numbers from -127 to 127; adding zero makes every zero positive."""
    return ((normal * 32).round().clamp(-127, 127) + 0.0).to(dtype)


def _constant(normal: torch.Tensor, _: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.full_like(normal, 7).to(dtype)


def _relu(normal: torch.Tensor, _: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Three scores of four are +0."""
    return torch.relu(normal * 64 - 43).to(dtype)


def _infinities(normal: torch.Tensor, _: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    infinite = torch.where(normal > 0, torch.inf, -torch.inf)
    return torch.where(normal.abs() > 1, infinite, normal).to(dtype)


def _both_zeros(normal: torch.Tensor, chance: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Half the scores are -0 or +0, as chance has it."""
    zeros = torch.zeros_like(normal)
    return torch.where(chance < 1 / 2, torch.where(normal < 0, -zeros, zeros), -chance).to(dtype)


def _one_nan(normal: torch.Tensor, chance: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return _with_nan(normal, chance, dtype, [0])


def _nan_payloads(normal: torch.Tensor, chance: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Three positive NaN: the usual one, and two with other bits below."""
    return _with_nan(normal, chance, dtype, [0, 1, 2])


def _nan_signs(normal: torch.Tensor, chance: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The usual NaN, and the same with its sign bit set, as 0/0 gives on a CPU."""
    return _with_nan(normal, chance, dtype, [0, -(1 << (8 * dtype.itemsize - 1))])


def _with_nan(
    normal: torch.Tensor, chance: torch.Tensor, dtype: torch.dtype, added: list[int]
) -> torch.Tensor:
    """Make one score of ten a NaN whose bits are the usual ones plus one of `added`."""
    whole = torch.int32 if dtype == torch.float32 else torch.int16
    bits = torch.tensor([NAN[dtype] + extra for extra in added], device=normal.device)
    which = (chance * len(added) / ONE_OF_TEN).long().clamp(max=len(added) - 1)
    holes = bits[which].to(whole)
    return torch.where(chance < ONE_OF_TEN, holes, normal.to(dtype).view(whole)).view(dtype)


Draw = Callable[[torch.Tensor, torch.Tensor, torch.dtype], torch.Tensor]
FLOAT_TIES: dict[str, Draw] = {
    "infinities": _infinities,
    "both-zeros": _both_zeros,
    "one-nan": _one_nan,
    "nan-payloads": _nan_payloads,
    "nan-signs": _nan_signs,
}
TIES: dict[str, Draw] = {
    "none": _none,
    "quantised": _quantised,
    "constant": _constant,
    "relu": _relu,
    **FLOAT_TIES,
}
