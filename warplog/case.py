"""One draw of fresh inputs with the reference's answer, and the buffers that cases take turns in.

The rule kept here: all cases of a workload differ in the data and in nothing else, so that a subject
cannot tell them apart by address or shape; neither the reference nor a subject may change them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from warplog.measure import Inputs, Outputs, Subject, Wrong, as_tuple, check_reference


@dataclass(frozen=True)
class Case:
    """Inputs, and what the reference makes of them."""

    inputs: Inputs
    expected: Outputs


def draw(inputs: Callable[[int], Any], reference: Subject, seed: int) -> Case:
    """Draw the inputs of `seed` and ask the reference, which gets a copy.

    Raises ValueError for inputs that hold tensors inside lists or dicts, Wrong for a reference that
    proves nothing.
    """
    drawn = inputs(seed)
    values = tuple(drawn) if isinstance(drawn, tuple | list) else (drawn,)
    for position, value in enumerate(values):
        if isinstance(value, list | tuple | dict | set):
            kind = type(value).__name__
            problem = f"input {position} is a {kind}"
            raise ValueError(f"{problem}; pass its tensors one by one")  # noqa: TRY004 - a bad argument
    expected = as_tuple(reference(*map(copied, values)))
    check_reference(expected)
    return Case(values, expected)


class Buffers:
    """Memory that cases are copied into, so that the same addresses hold other data each time."""

    def __init__(self, like: Case) -> None:
        """Make room for cases of the shape of `like`, and load it."""
        self._case = like
        self.inputs = tuple(map(copied, like.inputs))

    def load(self, case: Case) -> None:
        """Copy a case in. Raises ValueError where it differs in more than the data of its tensors."""
        pairs = zip(self.inputs, case.inputs, strict=True)
        for position, (buffer, value) in enumerate(pairs):
            if isinstance(buffer, torch.Tensor) and isinstance(value, torch.Tensor):
                if (buffer.shape, buffer.dtype) != (value.shape, value.dtype):
                    problem = f"input {position} changes its shape or dtype with the seed"
                    raise ValueError(f"{problem}; name such a size in the workload")
                buffer.copy_(value)
            elif type(buffer) is not type(value) or buffer != value:
                raise ValueError(f"input {position} changes with the seed and is no tensor")
        self._case = case

    def check_unchanged(self) -> None:
        """Raise Wrong if a subject has written into the inputs since they were loaded."""
        for position, (buffer, value) in enumerate(
            zip(self.inputs, self._case.inputs, strict=True)
        ):
            if isinstance(buffer, torch.Tensor) and not _same_bits(buffer, value):
                raise Wrong(f"changed its input {position}")


def copied(value: Any) -> Any:
    """Return a tensor's copy, and anything else as it is."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def _same_bits(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Return whether two tensors of one dtype hold the same bits, NaN included."""
    return bool(torch.equal(*(each.contiguous().view(torch.uint8) for each in (one, two))))
