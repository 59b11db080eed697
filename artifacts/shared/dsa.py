"""Sparse attention decode, defined once: shapes, float64 reference, what counts as right, the cost.

The operation that its authors call dsa_sparse_attention_h16_ckv512_kpe64_topk2048_ps64.
Each of T tokens has 16 heads and a list of rows of a paged cache, of which -1 is no row. A row is a
key of 512 + 64 numbers, and its first 512 are the value as well:

    logits = (q_nope · Kcᵀ + q_pe · Kpᵀ) · sm_scale      over the rows of the list that are not -1
    output = softmax(logits) · Kc                        lse = log2 Σ exp(logits)

| name | shape | dtype |
| --- | --- | --- |
| q_nope | [T, 16, 512] | bf16 |
| q_pe | [T, 16, 64] | bf16 |
| ckv_cache | [pages, 64, 512] | bf16 |
| kpe_cache | [pages, 64, 64] | bf16 |
| sparse_indices | [T, width] | int32, a row is page · 64 + offset; the public width is 2048 |
| sm_scale | a number | |
| output | [T, 16, 512] | bf16 |
| lse | [T, 16] | fp32, base 2 |

A token without any row gives output 0 and lse -inf. A row that is listed twice counts twice.
The definition has no lower bound: no token gives empty outputs, and a list of no places has no row.
Kernels need one token and one place at least, and `check` refuses less.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

HEADS, CKV, KPE, PAGE = 16, 512, 64, 64
WIDTH = 2048
PAGES = 8462
SM_SCALE = 0.1352337788608801
LOG2_E = math.log2(math.e)

ROW_BYTES = 2 * (CKV + KPE)
ROW_OPERATIONS = HEADS * (2 * (CKV + KPE) + 2 * CKV)
ERROR_AT_MOST = 5e-3
ELEMENT_AT_MOST = 1e-2
SCALE_BELOW = 2**127  # float32 holds it in base 2, too

_TOKENS_AT_ONCE = 16


class Problem(NamedTuple):
    """The inputs of one call, in the order in which every implementation takes them."""

    q_nope: Tensor
    q_pe: Tensor
    ckv_cache: Tensor
    kpe_cache: Tensor
    sparse_indices: Tensor
    sm_scale: float


def problem(sparse_indices: Tensor, seed: int, pages: int = PAGES) -> Problem:
    """Draw queries and caches from a normal distribution, on the device of `sparse_indices`."""
    device, tokens = sparse_indices.device, len(sparse_indices)
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.bfloat16, device=device, generator=generator)

    return Problem(
        normal(tokens, HEADS, CKV),
        normal(tokens, HEADS, KPE),
        normal(pages, PAGE, CKV),
        normal(pages, PAGE, KPE),
        sparse_indices,
        SM_SCALE,
    )


def reference(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    sparse_indices: Tensor,
    sm_scale: float,
) -> tuple[Tensor, Tensor]:
    """Return output [T, 16, 512] and lse [T, 16], both float64: the definition, in the plainest steps."""
    options = {"dtype": torch.float64, "device": q_nope.device}
    outputs, sums = [torch.empty((0, HEADS, CKV), **options)], [torch.empty((0, HEADS), **options)]
    for first in range(0, len(sparse_indices), _TOKENS_AT_ONCE):
        part = slice(first, first + _TOKENS_AT_ONCE)
        listed = sparse_indices[part].long()
        valid = (listed >= 0)[:, None, :]
        rows = listed.clamp(min=0)
        kc = ckv_cache.flatten(0, 1)[rows].double()
        kc = kc.masked_fill(~valid.mT, 0.0)  # whatever row 0 holds, padding adds none of it
        kp = kpe_cache.flatten(0, 1)[rows].double()
        logits = q_nope[part].double() @ kc.mT + q_pe[part].double() @ kp.mT
        logits = (logits * sm_scale).masked_fill(~valid, -math.inf)
        lse = torch.logsumexp(logits, dim=-1)
        weights = (logits - lse[..., None]).exp().nan_to_num(nan=0.0)
        outputs.append(weights @ kc)
        sums.append(lse * LOG2_E)
    return torch.cat(outputs), torch.cat(sums)


def wrong_elements(found: Tensor, expected: Tensor) -> int:
    """Count the elements that are off by more than 1e-2 and by more than 1e-2 of their value, or NaN."""
    gap = (found.double() - expected.double()).abs()
    gap = torch.where(found == expected, 0.0, gap)  # -inf is right where -inf is expected
    near = gap <= ELEMENT_AT_MOST * expected.double().abs()
    fine = (gap <= ELEMENT_AT_MOST) | (near & gap.isfinite())
    return int((~fine).sum())


def traffic(tokens: int, rows: int, width: int = WIDTH) -> int:
    """Return the bytes that a call must move: `rows` different rows once, lists, queries, outputs."""
    queries = 2 * tokens * HEADS * (CKV + KPE)
    outputs = tokens * HEADS * (2 * CKV + 4)
    return rows * ROW_BYTES + 4 * tokens * width + queries + outputs


def work(rows: int) -> int:
    """Return the operations of a call that attends to `rows` rows, over all its tokens."""
    return rows * ROW_OPERATIONS


def check(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    sparse_indices: Tensor,
    *outputs: Tensor,
    width: int | None = None,
    indices: bool = False,
    sm_scale: float = SM_SCALE,
) -> None:
    """Raise ValueError, naming tensor, value and remedy, unless a kernel can take these tensors.

    `outputs` are output and lse, where the caller has made them; `width` is the only width of the
    list that the kernel takes; `indices` also looks at every index, which waits for the GPU;
    `sm_scale` is that of the call.
    """
    tokens, pages = _rows("q_nope", q_nope), _rows("ckv_cache", ckv_cache)
    if tokens == 0:
        raise ValueError("q_nope has no token: skip the call when T = 0")
    _rows("sparse_indices", sparse_indices)
    _check_scale(sm_scale)
    bf16, listed = torch.bfloat16, sparse_indices.shape[-1] if width is None else width
    rules = [
        ("q_nope", q_nope, (tokens, HEADS, CKV), bf16),
        ("q_pe", q_pe, (tokens, HEADS, KPE), bf16),
        ("ckv_cache", ckv_cache, (pages, PAGE, CKV), bf16),
        ("kpe_cache", kpe_cache, (pages, PAGE, KPE), bf16),
        ("sparse_indices", sparse_indices, (tokens, listed), torch.int32),
    ]
    made = [("output", (tokens, HEADS, CKV), bf16), ("lse", (tokens, HEADS), torch.float32)]
    rules += [(name, tensor, *rule) for (name, *rule), tensor in zip(made, outputs, strict=False)]
    for name, tensor, shape, dtype in rules:
        _check_tensor(name, tensor, shape, dtype, q_nope.device)
    if sparse_indices.shape[1] == 0:
        raise ValueError("sparse_indices lists 0 places: widen it, with -1 where there is no row")
    if indices:
        low, high = int(sparse_indices.min()), int(sparse_indices.max())
        if low < -1 or high >= pages * PAGE:
            outside = low if low < -1 else high
            raise ValueError(
                f"sparse_indices holds {outside}: a row is 0 to {pages * PAGE - 1}, and -1 is padding"
            )


def _rows(name: str, tensor: Tensor) -> int:
    """Return how many rows a tensor has, or raise ValueError where it can have none."""
    if not isinstance(tensor, Tensor) or tensor.ndim == 0:
        raise ValueError(f"{name} is {tensor!r}: pass a tensor with dimensions")
    return len(tensor)


def _check_scale(sm_scale: object) -> None:
    """Raise ValueError unless the scale is a number that a kernel can be given."""
    number = isinstance(sm_scale, int | float) and not isinstance(sm_scale, bool)
    if not number or not abs(sm_scale) < SCALE_BELOW:
        raise ValueError(f"sm_scale is {sm_scale!r}: pass a finite int or float below 2**127")


def _check_tensor(
    name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    _rows(name, tensor)
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} has shape {list(tensor.shape)}: it must be {list(shape)}")
    if tensor.dtype != dtype:
        raise ValueError(f"{name} is {tensor.dtype}: convert it to {dtype}")
    if tensor.device != device:
        raise ValueError(f"{name} is on {tensor.device}: move it to {device}, where q_nope is")
    if not tensor.is_contiguous():
        strides = list(tensor.stride())
        raise ValueError(f"{name} has strides {strides}: pass {name}.contiguous()")
    if tensor.data_ptr() % 16:
        raise ValueError(f"{name} starts at an address that 16 does not divide: pass a copy of it")
