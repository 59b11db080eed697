"""A BitNet b1.58 layer for training: norm, quantisers and int8 product in four launches, and its backward.

    y = x_q · W_qᵀ + b        x_q from the RMSNorm of x, by token; W_q ternary, by tensor; kernel.py has both
    straight through: dn = dy · W_q,  dW = dyᵀ · x_q,  and dn goes through the norm

Tier 1 multiplies dy in its own dtype by the exact codes; tier 2 makes dy int8 by row for dn; tier 3 also by
column for dW. `tier_for` lowers a tier where int8 would not pay or a sum could overflow, and says which.
Kept for the backward pass: x itself, two numbers a row, one scale. The codes are made again there.
"""

from typing import Any

import torch
from gradient import both_of_gradient, rows_of_gradient
from kernel import recoded, rows_to_codes
from norm import norm_backward
from product import REDUCTION_AT_MOST, multiply
from ternary import weight_again, weight_to_codes
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

_STEPS = [0]  # optimiser steps of this process: a fused one changes weights and counts no version


def _count_step(*_: Any) -> None:
    _STEPS[0] += 1


register_optimizer_step_post_hook(_count_step)
PAYS = 2**33  # products T · N · K from which int8 pays in the backward pass, on an H200
SHARE = 1 / 127


def tier_for(tier: int, tokens: int, outputs: int, inputs: int, *, forced: bool = False) -> int:
    """Return the tier that a call of this size runs at: `tier`, or the highest below it that pays.

    Below 2³³ products T · N · K (2048 tokens, 2048 wide) a gradient's codes cost more than int8 saves, and a
    backward pass is tier 1's, in the gradient's own dtype.
    Sums of int8 products must fit 32 bits: over `outputs` from tier 2, over `tokens` in tier 3;
    `forced` asks for the tier whether it pays or not.
    """
    work = tokens * outputs * inputs
    fits = {2: outputs <= REDUCTION_AT_MOST, 3: max(outputs, tokens) <= REDUCTION_AT_MOST}
    possible = [each for each in (2, 3) if each <= tier and fits[each]]
    return max([1, *possible]) if forced or work >= PAYS else 1


# region: operators
@torch.library.custom_op("warplog_bitnet::ternarise", mutates_args=())
def ternarise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return W's codes int8 [N, padded K] and its scale float32 [1]."""
    return weight_to_codes(weight.contiguous())


@ternarise.register_fake
def _(weight: Tensor) -> tuple[Tensor, Tensor]:
    rows, width = weight.shape
    codes = weight.new_empty((rows, (width + 15) // 16 * 16), dtype=torch.int8)
    return codes, weight.new_empty(1, dtype=torch.float32)


@torch.library.custom_op("warplog_bitnet::linear", mutates_args=())
def linear(
    x: Tensor, weight: Tensor, norm: Tensor, bias: Tensor | None, codes: Tensor | None,
    scale: Tensor | None, tier: int, epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Return y [T, N] in x's dtype, of each row its m and 1 / rms, float32 [T], and W's scale if made.

    `codes` and `scale` are those of `ternarise(weight)`, or None: then they are made here. `tier` is of the
    backward pass.
    """
    del tier
    made = x.new_empty(0, dtype=torch.float32)
    if codes is None:
        codes, scale = weight_to_codes(weight.contiguous())
        made = scale
    left, most, inverse = rows_to_codes(x, norm, epsilon)
    if len(x) == 0:
        return x.new_empty((0, len(weight))), most, inverse, made
    out = multiply(
        left, codes, x.shape[1], most, dtype=x.dtype, factor=SHARE, scale=scale, bias=bias
    )
    return out, most, inverse, made


@linear.register_fake
def _(
    x: Tensor, weight: Tensor, _norm: Tensor, _bias: Tensor | None, codes: Tensor | None, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    lengths = (x.shape[0], x.shape[0], 1 if codes is None else 0)
    kept = [x.new_empty(length, dtype=torch.float32) for length in lengths]
    return x.new_empty((x.shape[0], weight.shape[0])), *kept


@torch.library.custom_op("warplog_bitnet::linear_backward", mutates_args=())
def linear_backward(
    gradient: Tensor, x: Tensor, weight: Tensor, norm: Tensor, scale: Tensor, most: Tensor,
    inverse: Tensor, tier: int, *, inputs: bool, weights: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return dx, dnorm and dW; the first two are empty unless `inputs`, the last unless `weights`."""
    if len(x) == 0:
        return torch.empty_like(x), torch.zeros_like(norm), torch.zeros_like(weight)
    weight = weight.contiguous()
    dx, dnorm, dweight = x.new_empty(0), norm.new_empty(0), weight.new_empty(0)
    by_row = row_most = by_column = column_most = None
    if tier == 3 and weights:
        by_row, row_most, by_column, column_most = both_of_gradient(gradient, most)
    elif tier >= 2 and inputs:
        by_row, row_most = rows_of_gradient(gradient)
    if by_column is not None:
        turned = recoded(x, norm, most, inverse, torch.int8)
        options = {"dtype": weight.dtype, "factor": SHARE * SHARE}
        dweight = multiply(by_column, turned, len(x), column_most, **options)
    elif weights:
        dweight = gradient.t().mm(recoded(x, norm, most, inverse, x.dtype)).to(weight.dtype)
    if inputs:
        if by_row is None:
            upstream, left_out = in_own_dtype(gradient, weight, scale)
        else:
            turned, left_out = weight_again(weight, scale, torch.int8, scaled=False), None
            upstream = multiply(
                by_row, turned, len(weight), row_most, dtype=x.dtype, factor=SHARE, scale=scale
            )
        dx, dnorm = norm_backward(upstream, left_out, x, norm, inverse)
    return dx, dnorm, dweight


def in_own_dtype(gradient: Tensor, weight: Tensor, scale: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return dy · codes, and the scale that is still to be applied.

    A bf16 scale would be off by up to 2⁻⁹; float16 has the bits for it and not the range to wait.
    """
    scaled = gradient.dtype != torch.bfloat16
    codes = weight_again(weight, scale, gradient.dtype, scaled=scaled)
    return gradient.mm(codes), None if scaled else scale


@linear_backward.register_fake
def _(
    _gradient: Tensor, x: Tensor, weight: Tensor, norm: Tensor, *_: Any, inputs: bool, weights: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    found = [each.new_empty(each.shape if inputs else 0) for each in (x, norm)]
    return *found, weight.new_empty(weight.shape if weights else 0)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight, norm, bias, _, scale, tier, _ = inputs
    _, most, inverse, made = output
    ctx.mark_non_differentiable(most, inverse, made)
    scale = made if scale is None else scale
    ctx.save_for_backward(x, weight, norm, scale, most, inverse)
    ctx.tier = tier
    ctx.bias = None if bias is None else bias.dtype


def _backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    x, weight, norm, scale, most, inverse = ctx.saved_tensors
    wanted = ctx.needs_input_grad
    inputs, weights = wanted[0] or wanted[2], wanted[1]
    gradient = gradient.contiguous()
    dx, dnorm, dweight = linear_backward(
        gradient, x, weight, norm, scale, most, inverse, ctx.tier, inputs=inputs, weights=weights
    )
    found = [dx if wanted[0] else None, dweight if weights else None, dnorm if wanted[2] else None]
    dbias = gradient.sum(0, dtype=torch.float32).to(ctx.bias) if wanted[3] else None
    return (*found, dbias, None, None, None, None)


linear.register_autograd(_backward, setup_context=_keep)
# endregion


class BitLinear(nn.Linear):
    """`nn.Linear` with an RMSNorm before it, its product ternary by int8; x is [..., K], y [..., N].

    Holds weight, optional bias and input_norm.weight, so that its state is the state of the same layer
    in bf16. `tier` is the most that the backward pass may do in int8: 1, 2 or 3; `forced` has it do so
    also where it does not pay.
    """

    def __init__(
        self, inputs: int, outputs: int, *, bias: bool = False, tier: int = 1, forced: bool = False,
        **options: Any,
    ) -> None:  # fmt: skip
        """Make a layer; `options` are `device` and `dtype`. Raises ValueError for another tier."""
        super().__init__(inputs, outputs, bias=bias, **options)
        if tier not in (1, 2, 3):
            raise ValueError(f"tier={tier!r}: use 1, 2 or 3")
        self.input_norm = nn.RMSNorm(inputs, eps=1e-5, **options)
        self.tier, self.forced = tier, forced
        self._known: tuple[Any, tuple[Tensor, Tensor]] | None = None
        self._captured = False

    def codes(self) -> tuple[Tensor, Tensor] | tuple[None, None]:
        """Return the weight's codes and scale, made anew when the weight has changed, or None and None
        where they are to be made at each call.

        A change is a step of any optimiser of torch.optim, and what PyTorch counts as one: a write through
        `.data`, or by a kernel of one's own, is none; call `forget` after it.
        A compiled graph and a CUDA graph hold the making in themselves. A graph's replay may change the
        weight unseen, so a layer that was captured remembers nothing more, and no layer does without
        gradients.
        """
        weight = self.weight.detach()
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return None, None
        self._captured = self._captured or _capturing(weight)
        if self._captured or weight.is_inference():
            return None, None
        stream = torch.cuda.current_stream(weight.device).cuda_stream if weight.is_cuda else 0
        state = (weight.data_ptr(), weight._version, weight.dtype, _STEPS[0], stream)
        if self._known is None or self._known[0] != state:
            self._known = (state, ternarise(weight))
        return self._known[1]

    def forget(self) -> None:
        """Make the codes anew at the next call."""
        self._known = None

    def forward(self, x: Tensor) -> Tensor:
        """Return y in x's dtype, or in autocast's where that is on."""
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        rows = x.reshape(-1, x.shape[-1])
        rows = rows if rows.stride(-1) == 1 else rows.contiguous()
        tier = tier_for(self.tier, len(rows), *self.weight.shape, forced=self.forced)
        epsilon = self.input_norm.eps
        norm, bias = self.input_norm.weight, self.bias
        y, *_ = linear(rows, self.weight, norm, bias, *self.codes(), tier, epsilon)
        return y.reshape(*x.shape[:-1], len(self.weight))


def _capturing(weight: Tensor) -> bool:
    return weight.is_cuda and torch.cuda.is_current_stream_capturing()
