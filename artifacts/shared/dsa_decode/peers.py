"""The peers: flashinfer's paged MLA decode, and PyTorch in the steps of the operation's definition.

Every peer takes the inputs of `kernel.decode` and, last, the rows that are listed, token by token and
without padding (int32 [rows]), which is flashinfer's page table for pages of one row.
"""

import math
from typing import Any

import torch
from shared.dsa import CKV, HEADS, KPE, LOG2_E, SM_SCALE
from torch import Tensor

WORKSPACE_BYTES = 128 << 20


def flashinfer_or_none() -> Any:
    """Return flashinfer, or None where it is not installed: then nothing is claimed of it."""
    try:
        import flashinfer
    except ImportError:
        return None
    return flashinfer


class Planned:
    """flashinfer's wrapper with one backend: planned for fixed counts of rows at its first call."""

    def __init__(self, flashinfer: Any, backend: str, counts: list[int], workspace: Tensor) -> None:
        """`counts` are the rows of each token; `workspace` is shared by all wrappers of a stream."""
        wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper
        self._wrapper = wrapper(workspace, backend=backend)
        self._counts = torch.tensor(counts, dtype=torch.int32)
        self._planned_for: int | None = None

    def plan(self, table: Tensor) -> None:
        """Plan for the page table in `table`, whose content may change later, but not its place."""
        tokens = len(self._counts)
        ends = torch.cat([torch.zeros(1, dtype=torch.int32), self._counts.cumsum(0).int()])
        queries = torch.arange(tokens + 1, dtype=torch.int32)
        self._wrapper.plan(
            queries.to(table.device), ends.to(table.device), table, self._counts.to(table.device),
            HEADS, CKV, KPE, page_size=1, causal=False, sm_scale=SM_SCALE,
            q_data_type=torch.bfloat16, kv_data_type=torch.bfloat16,
        )  # fmt: skip
        self._planned_for = table.data_ptr()

    def __call__(
        self, q_nope: Tensor, q_pe: Tensor, ckv_cache: Tensor, kpe_cache: Tensor, _indices: Tensor,
        _sm_scale: float, table: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Return output bf16 [T, 16, 512] and lse fp32 [T, 16]."""
        if self._planned_for != table.data_ptr():
            self.plan(table)
        rows, tails = ckv_cache.view(-1, 1, CKV), kpe_cache.view(-1, 1, KPE)
        return self._wrapper.run(q_nope, q_pe, rows, tails, return_lse=True)

    def planning(self, *inputs: Any) -> tuple[Tensor, Tensor]:
        """Do the same, and plan in every call."""
        self.plan(inputs[-1])
        return self(*inputs)


def eager(
    q_nope: Tensor, q_pe: Tensor, ckv_cache: Tensor, kpe_cache: Tensor, sparse_indices: Tensor,
    sm_scale: float, _table: Tensor, *, whole_cache: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Go token by token: gather, matmul, softmax, matmul, in float32.

    `whole_cache` converts the whole cache to float32 first, as the published definition of the
    operation does, and not the listed rows alone.
    """
    rows, tails = ckv_cache.flatten(0, 1), kpe_cache.flatten(0, 1)
    if whole_cache:
        rows, tails = rows.float(), tails.float()
    output = torch.zeros_like(q_nope)
    lse = torch.full(q_nope.shape[:2], -math.inf, dtype=torch.float32, device=q_nope.device)
    for token, listed in enumerate(sparse_indices):
        present = listed[listed != -1].long()
        if present.numel() == 0:
            continue
        kc, kp = rows[present].float(), tails[present].float()
        logits = q_nope[token].float() @ kc.T + q_pe[token].float() @ kp.T
        logits *= sm_scale
        lse[token] = torch.logsumexp(logits, dim=-1) * LOG2_E
        output[token] = (torch.softmax(logits, dim=-1) @ kc).to(output.dtype)
    return output, lse


def batched(
    q_nope: Tensor, q_pe: Tensor, ckv_cache: Tensor, kpe_cache: Tensor, sparse_indices: Tensor,
    sm_scale: float, _table: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Do all tokens at once, padding masked: the form that `torch.compile` can take whole."""
    rows = sparse_indices.clamp(min=0).long()
    kc = ckv_cache.flatten(0, 1)[rows].float()
    kp = kpe_cache.flatten(0, 1)[rows].float()
    logits = (q_nope.float() @ kc.mT + q_pe.float() @ kp.mT) * sm_scale
    logits = logits.masked_fill((sparse_indices < 0)[:, None], -math.inf)
    lse = torch.logsumexp(logits, dim=-1)
    weights = torch.exp(logits - lse[..., None]).nan_to_num(nan=0.0)
    return (weights @ kc).to(q_nope.dtype), lse * LOG2_E
