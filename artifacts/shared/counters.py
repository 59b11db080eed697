"""Counters that blocks of a launch count themselves in by, and that a launch leaves as it found them."""

import torch
from torch import Tensor

_COUNTERS: dict[tuple[torch.device, int, int], Tensor] = {}


def counters(count: int, device: torch.device) -> Tensor:
    """Return `count` counters at zero, int32: each stream has its own, and a launch leaves them at zero.

    Those of a CUDA graph are the graph's, and its first node sets them to zero: a capture only notes
    down what would be done, on a stream that other captures use as well.
    """
    options = {"dtype": torch.int32, "device": device}
    if torch.cuda.is_current_stream_capturing():
        return torch.zeros(count, **options)
    key = (device, torch.cuda.current_stream(device).cuda_stream, count)
    if key not in _COUNTERS:
        _COUNTERS[key] = torch.zeros(count, **options)
    return _COUNTERS[key]
