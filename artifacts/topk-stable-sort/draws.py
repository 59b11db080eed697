"""Scores to rank: all distinct, or with ties of one kind.

`TIES` names the kinds; each draws from the same normal and uniform numbers. `SPECIAL` are those that
hold both zeros or NaN, for which ranking by value and ranking by bits are two things.
"""

from collections.abc import Callable

import torch

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
NAN = {torch.float32: 0x7FC00000, torch.float16: 0x7E00, torch.bfloat16: 0x7FC0}
ONE_OF_TEN = 0.1
HEADS = 4


def dtypes_of(kind: str) -> tuple[torch.dtype, ...]:
    """Return the types that hold ties of a kind."""
    if kind == "summed-heads":
        return (torch.float32,)  # In 16 bits a small negative sum would round to -0.
    return FLOATS if kind in FLOAT_TIES else (*FLOATS, torch.int32)


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


def _weighted_relu(normal: torch.Tensor, chance: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """One head of an indexer: half the scores are zeros, with the sign of a random weight."""
    return (torch.relu(normal) * (chance - 1 / 2)).to(dtype)


def _summed_heads(normal: torch.Tensor, chance: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The sum over four such heads, by `torch.sum`: one score of sixteen is a zero."""
    shifts = range(HEADS)
    heads = [_weighted_relu(normal.roll(n, -1), chance.roll(2 * n + 1, -1), dtype) for n in shifts]
    return torch.stack(heads).sum(0)


Draw = Callable[[torch.Tensor, torch.Tensor, torch.dtype], torch.Tensor]
FLOAT_TIES: dict[str, Draw] = {
    "infinities": _infinities,
    "summed-heads": _summed_heads,
    "weighted-relu": _weighted_relu,
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
SPECIAL = {
    "weighted-relu": "signed-zeros",
    "both-zeros": "signed-zeros",
    "nan-payloads": "mixed-nan",
    "nan-signs": "mixed-nan",
}
