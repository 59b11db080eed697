"""What a dispatcher must know of a launch, what it takes for granted, and what it looks at each call."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from graph import Step, Values
from streams import check_current
from torch import Tensor

LOWEST, HIGHEST = -(2.0**127), 2.0**127  # float32 holds what lies between, in base 2, too

Launcher = Callable[[Sequence[Tensor], Sequence[float]], None]


class Operation(Protocol):
    """How many tensors a launch takes, in a fixed order, how many of them are outputs, which are the
    last, and how many scalars.

    What no check here can see, and an operation has to keep:

    - the kernels write all of every output, read nothing of what it held, and write nowhere else but
      into scratch; scratch is left as the next launch needs it (a counter is back at its start);
    - the same inputs give the same bits: no random numbers, no sums in the order of arrival. A shadow
      runs the operation a second time, so what counts calls would count two, and what adds to its
      output, or rounds by chance, would be called stale;
    - the methods are functions: the same arguments give the same result as long as the dispatcher
      lives, from any thread, and from two at once. A plan that changes needs a dispatcher of its own.
    """

    tensors: int
    outputs: int
    scalars: int

    def steps(self, tensors: Sequence[Tensor], scalars: Sequence[float]) -> tuple[Step, ...]:
        """Check what is given and return the kernels to start, or raise ValueError.

        They may be special to shapes, and to the values of scalars that are whole, and to no more.
        Of floats that a graph is at hand for, it is asked about those alone that are not finite, or
        not below 2**127.
        """

    def scratch(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Allocate what the kernels leave to each other."""

    def values(
        self, addresses: Sequence[int], scalars: Sequence[float], scratch: Sequence[int]
    ) -> Values:
        """Return every parameter of every kernel."""


def check_options(operation: Operation, audit_every: int, shadow_every: int, entries: int) -> None:
    """Raise ValueError for what a dispatcher cannot be made with."""
    for name, value, least, remedy in (
        ("audit_every", audit_every, 0, "0 is never, and n each n-th call"),
        ("shadow_every", shadow_every, 0, "0 is never, and n each n-th call"),
        ("entries", entries, 1, "keep at least one graph"),
    ):
        if type(value) is not int or value < least:
            raise ValueError(f"{name}={value}: {remedy}")
    if not 1 <= operation.outputs <= operation.tensors:
        raise ValueError(
            f"{operation.outputs} of {operation.tensors} tensors are outputs: name one at least"
        )


def checked(
    operation: Operation, tensors: Sequence[Tensor], scalars: Sequence[float]
) -> torch.device:
    """Return the device of a call, whose context is made current in this thread.

    Raises ValueError for too many or too few, for what is no number, for floats that the operation
    does not take, and for another GPU than torch's; RuntimeError inside a capture.
    """
    if len(tensors) != operation.tensors:
        raise ValueError(f"{len(tensors)} tensors: pass {operation.tensors}, the outputs last")
    if len(scalars) != operation.scalars:
        raise ValueError(f"{len(scalars)} scalars: pass {operation.scalars}")
    unusual = False
    for scalar in scalars:
        if isinstance(scalar, float):
            if not LOWEST < scalar < HIGHEST:
                unusual = True
        elif type(scalar) is not int:  # True equals 1 in a key, and code may differ between them
            raise ValueError(f"a scalar is {scalar!r}: pass an int or a float")
    device = tensors[0].device
    check_current(device)
    if unusual:
        operation.steps(tensors, scalars)
    return device
