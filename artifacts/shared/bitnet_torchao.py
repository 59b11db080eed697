"""torchao's BitNet layer: its weight, whether its Triton kernel runs, and a shorter tuning of that kernel."""

import contextlib
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


def leaf_of(name: str, weight: Tensor) -> Tensor:
    """Return the weight as a leaf that takes a gradient, over the same memory; torchao's is a subclass."""
    if name != "torchao":
        return weight.detach().requires_grad_()
    from torchao.prototype.quantized_training import bitnet_training
    from torchao.quantization import quantize_

    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    layer.weight = nn.Parameter(weight.detach())
    holder = nn.Sequential(layer)
    quantize_(holder, bitnet_training())
    return holder[0].weight


def torchao_uses_triton() -> bool:
    """Return whether torchao's int8 product is its Triton kernel here; ImportError without torchao."""
    from torchao.prototype.quantized_training import bitnet

    return bitnet.scaled_int8_mm.__module__.endswith("int8_mm")


def shorten_tuning(configurations: int) -> None:
    """Let torchao's autotuner try only so many of its configurations, each for a few milliseconds.

    Those with the largest tiles stay: of its list they are the ones for large products.
    """
    with contextlib.suppress(ImportError):
        from torchao.prototype.quantized_training import int8_mm
        from triton.testing import do_bench

        tuner = int8_mm._scaled_int8_mm_kernel
        own = {str(each): each for each in tuner.configs}  # some stand there twice
        tuner.configs = sorted(own.values(), key=_tile, reverse=True)[:configurations]
        tuner._do_bench = _briefly(do_bench)


def _tile(configuration: Any) -> int:
    sizes = configuration.kwargs
    return sizes["BLOCK_M"] * sizes["BLOCK_N"] * sizes["BLOCK_K"]


def _briefly(bench: Callable[..., Any]) -> Callable[..., Any]:
    def brief(call, quantiles):
        return bench(call, warmup=1, rep=4, quantiles=quantiles)

    return brief
