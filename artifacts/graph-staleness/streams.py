"""Streams by the driver's handle, and torch's way to make one current."""

import contextlib
from contextlib import AbstractContextManager

import torch


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
    """Raise ValueError for a GPU that is not torch's current one: graphs are made and started there."""
    if device.type == "cuda" and device.index != torch.cuda.current_device():
        raise ValueError(
            f"the tensors are on {device} and torch's current GPU is "
            f"cuda:{torch.cuda.current_device()}: call inside torch.cuda.device({device.index})"
        )
