"""One draw of fresh inputs with the reference's answer, and the buffers that cases take turns in.

The rule kept here: all cases of a workload differ in the data and in nothing else (strides, offsets and
shared memory are the author's), so that a subject cannot tell them apart; neither the reference nor a
subject may change them, nor can one subject's handling of a tensor reach another.
"""

import math
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

    Raises ValueError for inputs that cannot be copied in place (tensors inside containers, sparse
    tensors), Wrong for a reference that proves nothing.
    """
    drawn = inputs(seed)
    values = tuple(drawn) if isinstance(drawn, tuple | list) else (drawn,)
    plain = tuple(_plain(value, position) for position, value in enumerate(values))
    expected = as_tuple(reference(*copies(plain)))
    check_reference(expected)
    return Case(plain, expected)


def _plain(value: Any, position: int) -> Any:
    """Return an input as the harness can copy it: bits as they are read, nothing pending."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise ValueError(f"input {position} is {value.layout}; pass its parts as dense tensors")
        return value.resolve_conj().resolve_neg()
    inside = value.values() if isinstance(value, dict) else value
    if isinstance(value, list | tuple | dict | set) and _holds_tensors(inside):
        problem = f"input {position} is a {type(value).__name__} with tensors inside"
        raise ValueError(f"{problem}; pass its tensors one by one")
    return value


def _holds_tensors(values: Any) -> bool:
    return any(isinstance(each, torch.Tensor) for each in values)


def copies(values: Inputs) -> Inputs:
    """Return copies of the tensors among `values`, with their strides and offsets, and sharing memory
    where they shared it; anything else as it is.
    """
    storages: dict[int, torch.UntypedStorage] = {}
    found = []
    for value in values:
        if not isinstance(value, torch.Tensor):
            found.append(value)
            continue
        own = value.untyped_storage()
        storage = storages.setdefault(own.data_ptr(), own.clone()) if own.nbytes() else own.clone()
        made = torch.empty(0, dtype=value.dtype, device=value.device)
        made.set_(storage, value.storage_offset(), value.shape, value.stride())
        found.append(made.requires_grad_(value.requires_grad))
    return tuple(found)


class Buffers:
    """Memory that cases are copied into, so that the same addresses hold other data each time."""

    def __init__(self, cases: list[Case]) -> None:
        """Make room for `cases` and load the first. Raises ValueError where one does not fit."""
        self._case = cases[0]
        self._own = copies(cases[0].inputs)
        for case in cases:
            self._check_form(case)

    @property
    def inputs(self) -> Inputs:
        """The inputs for one call: tensors of its own over the buffers, so that what a call does to
        a tensor beside writing into it is gone with the call.
        """
        return tuple(_alias(value) for value in self._own)

    def load(self, case: Case) -> None:
        """Copy a case in, or raise ValueError where it does not fit."""
        self._check_form(case)
        for buffer, value in zip(self._own, case.inputs, strict=True):
            if isinstance(buffer, torch.Tensor):
                buffer.untyped_storage().copy_(value.untyped_storage())
        self._case = case

    def _check_form(self, case: Case) -> None:
        """Raise ValueError where a case differs in more than the data of its tensors."""
        pairs = zip(self._own, case.inputs, strict=True)
        for position, (buffer, value) in enumerate(pairs):
            if isinstance(buffer, torch.Tensor) and isinstance(value, torch.Tensor):
                if _form(buffer) != _form(value):
                    problem = f"input {position} changes its shape, dtype or strides with the seed"
                    raise ValueError(f"{problem}; name such a size in the workload")
            elif not _same_constant(buffer, value):
                raise ValueError(f"input {position} changes with the seed and is no tensor")

    def check_unchanged(self) -> None:
        """Raise Wrong if a subject has written into the inputs since they were loaded."""
        for position, (buffer, value) in enumerate(zip(self._own, self._case.inputs, strict=True)):
            if isinstance(buffer, torch.Tensor) and not torch.equal(_raw(buffer), _raw(value)):
                raise Wrong(f"changed its input {position}")


def _alias(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().requires_grad_(value.requires_grad)


def _form(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return what all cases of an input must have in common."""
    size = tensor.untyped_storage().nbytes()
    return tensor.shape, tensor.dtype, tensor.stride(), tensor.storage_offset(), size


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    """Return all the memory behind a tensor, as words of eight bytes if it is some: that compares faster."""
    raw = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    raw.set_(tensor.untyped_storage())
    return raw if raw.numel() % 8 else raw.view(torch.int64)


def _same_constant(one: Any, two: Any) -> bool:
    """Return whether two inputs that are no tensors are the same: NaN is, and so are equal arrays."""
    if one is two:
        return True
    if isinstance(one, float) and isinstance(two, float) and math.isnan(one) and math.isnan(two):
        return True
    try:
        same = one == two
        return bool(same.all()) if hasattr(same, "all") else bool(same)
    except (TypeError, ValueError, RuntimeError):
        return False
