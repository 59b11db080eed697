"""The operation in plain PyTorch, for a ratio that many would publish: no loop over tokens, float32."""

import torch
from shared.dsa import LOG2_E


def eager(q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices, sm_scale):
    """Return output bf16 [T, 16, 512] and lse fp32 [T, 16]; a token without a row is not handled."""
    padding = (sparse_indices < 0)[:, None, :]
    rows = sparse_indices.clamp(min=0).long()
    kc = ckv_cache.flatten(0, 1)[rows].float()
    kp = kpe_cache.flatten(0, 1)[rows].float()
    logits = q_nope.float() @ kc.mT + q_pe.float() @ kp.mT
    logits = (logits * sm_scale).masked_fill(padding, float("-inf"))
    lse = torch.logsumexp(logits, dim=-1)
    output = (logits - lse[..., None]).exp() @ kc
    return output.bfloat16(), lse * LOG2_E
