"""Streams by the driver's handle, torch's way to make one current, and what a thread must have current."""

import contextlib
import threading
from contextlib import AbstractContextManager

import torch
from shared.cuda_module import make_current

_here = threading.local()


def torch_stream(device: torch.device) -> int:
    """Return the handle of torch's current stream on a tensor's `device`; 0 without a GPU.

    Asked for as Triton does it: `torch.cuda.current_stream` makes an object of it first.
    """
    return torch._C._cuda_getCurrentRawStream(device.index) if device.type == "cuda" else 0


def on_stream(stream: int, device: torch.device) -> AbstractContextManager[object]:
    """Make a stream torch's current one: what is allocated and filled inside is ordered with its launches,
    and what is given back is not given to another stream.
    """
    if device.type != "cuda" or stream == torch_stream(device):
        return contextlib.nullcontext()
    if stream == 0:  # as an external stream, torch would take 0 for none
        return torch.cuda.stream(torch.cuda.default_stream(device))
    return torch.cuda.stream(torch.cuda.ExternalStream(stream, device=device))


def check_current(device: torch.device) -> None:
    """Make a GPU's context current in this thread, where graphs are made and started: a new one has none.

    Raises ValueError for a GPU that is not torch's current one, and RuntimeError inside a capture,
    which would keep this call's addresses, and scratch that is not its own, for every later replay.
    """
    if device.type != "cuda":
        return
    current = torch._C._cuda_getDevice()  # there is a tensor, so CUDA is initialised
    if device.index != current:
        raise ValueError(
            f"the tensors are on {device} and torch's current GPU is "
            f"cuda:{current}: call inside torch.cuda.device({device.index})"
        )
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "torch's current stream is being captured, and a graph that is patched cannot be a part "
            "of another: call the dispatcher outside of the capture, or capture another launcher"
        )
    if getattr(_here, "device", None) != current:
        make_current(current)
        _here.device = current
