"""The peers, each a module with the state of nn.Linear and input_norm, and how a call of one is made.

bf16: `nn.Linear` after an RMSNorm. naive: BitNet in separate operations with float32 up-casts and the
straight-through gradient as x + (x_q − x).detach(). round only: a Function around round alone, everything
else ordinary. torchao: `bitnet_training` and int8 mixed precision (torchao's own int8 training, not BitNet).
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from reference import EPSILON
from shared.graph_replay import graphed
from torch import Tensor, nn
from torch.nn import functional

TORCHAO_TILES = {(128, 256, 128, 3), (256, 128, 128, 3), (128, 256, 64, 3), (128, 128, 128, 4)}


class Bf16(nn.Linear):
    """`nn.Linear` with an RMSNorm before it."""

    def __init__(self, inputs: int, outputs: int, **options: Any) -> None:
        """Make a layer without a bias."""
        super().__init__(inputs, outputs, bias=False, **options)
        self.input_norm = nn.RMSNorm(inputs, eps=EPSILON, **options)

    def forward(self, x: Tensor) -> Tensor:
        """Return y. torchao's backward pass needs the bias to be named, also where there is none."""
        return functional.linear(self.input_norm(x), self.weight, self.bias)


def separate_norm(x: Tensor, norm: Tensor) -> Tensor:
    """Return the RMSNorm in separate operations, up-cast."""
    full = x.float()
    full = full * torch.rsqrt(full.pow(2).mean(-1, keepdim=True) + EPSILON)
    return (full * norm.float()).to(x.dtype)


class Naive(Bf16):
    """BitNet in separate operations, straight through by detach."""

    def forward(self, x: Tensor) -> Tensor:
        """Return y."""
        n = separate_norm(x, self.input_norm.weight)
        full = n.float()
        a = 127 / full.abs().amax(-1, keepdim=True).clamp(min=EPSILON)
        x_q = ((full * a).round().clamp(-128, 127) / a).to(n.dtype)
        weight = self.weight.float()
        scale = weight.abs().mean().clamp(min=EPSILON)
        w_q = ((weight / scale).round().clamp(-1, 1) * scale).to(n.dtype)
        return functional.linear(n + (x_q - n).detach(), self.weight + (w_q - self.weight).detach())


class _Round(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(_ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class RoundOnly(Bf16):
    """BitNet with a Function around round alone; its scales are differentiable, so its gradients differ."""

    def forward(self, x: Tensor) -> Tensor:
        """Return y."""
        n = separate_norm(x, self.input_norm.weight).float()
        a = 127 / n.abs().amax(-1, keepdim=True).clamp(min=EPSILON)
        x_q = _Round.apply(n * a).clamp(-128, 127) / a
        weight = self.weight.float()
        scale = weight.abs().mean().clamp(min=EPSILON)
        w_q = _Round.apply(weight / scale).clamp(-1, 1) * scale
        return functional.linear(x_q.to(x.dtype), w_q.to(x.dtype))


def torchao_or_none() -> Any:
    """Return torchao's quantized training, its tuner cut to large tiles; None where it is not installed.

    Its own list of 25 tilings takes a minute to compile; the four kept are its large ones.
    """
    try:
        from torchao.prototype import quantized_training
        from torchao.prototype.quantized_training import int8_mm
    except ImportError:
        return None
    tuner = getattr(int8_mm, "_scaled_int8_mm_kernel", None)
    if tuner is not None:
        large = {_tile(each): each for each in tuner.configs if _tile(each) in TORCHAO_TILES}
        tuner.configs = list(large.values())  # its list has some twice
        tuner.cache_results = True
    return quantized_training


def _tile(config: Any) -> tuple[int, ...]:
    return (*(config.kwargs[f"BLOCK_{side}"] for side in "MNK"), config.num_stages)


def torchao_layer(config: Any) -> Callable[..., nn.Module]:
    """Return what makes a bf16 layer whose weight torchao's `config` trains."""

    def make(weight: Tensor, norm: Tensor) -> nn.Module:
        from torchao import quantize_

        layer = assembled(Bf16, weight, norm)
        quantize_(layer, config)
        return layer

    return make


def torchao_int8(weight: Tensor, norm: Tensor) -> nn.Module:
    """Make a layer of torchao's int8 training, mended."""
    from torchao.prototype.quantized_training import int8_mixed_precision_training

    layer = assembled(Bf16, weight, norm)
    layer.weight = nn.Parameter(_mended()(layer.weight.detach(), int8_mixed_precision_training()))
    return layer


@functools.cache
def _mended() -> Any:
    """Return torchao's weight with its linear layer where `F.linear` looks for it; version 0.18 registers
    it elsewhere, so that as its configuration makes it, a layer trains in bf16.
    """
    from torchao.prototype.quantized_training import int8_mixed_precision as torchao

    class Mended(torchao.Int8MixedPrecisionTrainingLinearWeight):
        pass

    @Mended.implements_torch_function(functional.linear)
    def _(_function: Any, _types: Any, args: Any, kwargs: Any) -> Tensor:
        return torchao._Int8MixedPrecisionTrainingLinearFunction.apply(*args, **(kwargs or {}))

    return Mended


def assembled(kind: Callable[..., nn.Module], weight: Tensor, norm: Tensor) -> nn.Module:
    """Make a layer over memory that is there: `weight` [N, K] and `norm` [K]."""
    outputs, inputs = weight.shape
    layer = kind(inputs, outputs, device="meta", dtype=weight.dtype)
    layer.weight = nn.Parameter(weight.detach())
    layer.input_norm.weight = nn.Parameter(norm.detach())
    return layer


class Called:
    """A layer's forward pass or training step on (x, weight, norm, upstream, …), replayed on a GPU.

    The first call on an address warms up, compiles where `compiled`, and captures a CUDA graph; later
    calls replay it. So no subject's launch gaps are in its time, eager or not.
    """

    def __init__(
        self, make: Callable[..., nn.Module], *, compiled: bool = False, step: bool = True
    ) -> None:
        """`make` takes weight and norm; `step` asks for the gradients too."""
        self._make, self._compiled, self._step = make, compiled, step
        self._known: tuple[int, ...] | None = None
        self.plain: Callable[[], Any] = tuple
        self._replay: Callable[[], Any] = tuple

    def __call__(self, *inputs: Tensor) -> Any:
        """Return y, and dx, dnorm and dW of a step."""
        if not inputs[0].is_cuda:
            self._prepare(inputs)
            return self.plain()
        where = tuple(each.data_ptr() for each in inputs)
        if where != self._known:
            self._capture(inputs)
            self._known = where
        return self._replay()

    def prepared(self, *inputs: Tensor) -> Callable[[], Any]:
        """Return the call on these inputs, without a graph."""
        self._prepare(inputs)
        return self.plain

    def _prepare(self, inputs: tuple[Tensor, ...]) -> None:
        x, weight, norm, upstream = (each.detach() for each in inputs[:4])
        layer = self._make(weight, norm)
        call = torch.compile(layer, dynamic=False, fullgraph=True) if self._compiled else layer
        x.requires_grad_()
        step = self._step  # not self, whose graph would then live until a collection

        def plain() -> Any:
            y = call(x)
            if not step:
                return y.detach()
            wanted = (x, layer.input_norm.weight, layer.weight)
            return y.detach(), *torch.autograd.grad(y, wanted, upstream)

        self.plain = plain

    def _capture(self, inputs: tuple[Tensor, ...]) -> None:
        self._prepare(inputs)
        self._replay = tuple  # the graph before is gone ahead of the next
        self._replay = graphed(self.plain)
