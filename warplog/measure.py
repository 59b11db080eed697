"""Right before fast: the error of a subject's outputs, and the memory poison that finds unwritten ones.

The rule kept here: no time is kept of a call whose output was not checked. Every timed output is
compared with the reference, the inputs change in place from round to round, and memory that a subject
allocates holds NaN until it writes it.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

Inputs = tuple[Any, ...]
Outputs = tuple[torch.Tensor, ...]
Subject = Callable[..., Any]

CHUNK = 1 << 26
_ALLOCATORS = {torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty}


class Wrong(Exception):
    """A subject's output is not the reference's; the message says how, for a person."""


class _Poison(TorchFunctionMode):  # type: ignore[misc]
    """Fills what torch.empty and its kin return with bytes 0xFF: NaN in every float, -1 in an int."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        given = (kwargs or {}).get("out") is not None
        if function in _ALLOCATORS and not given and made.numel() and made.dtype != torch.bool:
            flat = made.as_strided((made.untyped_storage().nbytes() // made.itemsize,), (1,), 0)
            flat.view(torch.uint8).fill_(0xFF)
        return made


@contextmanager
def poisoned() -> Iterator[None]:
    """Within it, memory that Python code allocates without a value holds NaN (integers: -1)."""
    with _Poison():
        yield


def as_tuple(outputs: Any) -> Outputs:
    """Return what a subject returned as a tuple of tensors, or raise Wrong."""
    found = outputs if isinstance(outputs, tuple | list) else (outputs,)
    for each in found:
        if (
            type(each) is not torch.Tensor
        ):  # a subclass could put its work off until it is looked at
            message = f"returned {type(each).__name__} where a plain tensor belongs"
            raise Wrong(message)
    return tuple(each.detach().resolve_conj().resolve_neg() for each in found)


def error_of(outputs: Outputs, expected: Outputs, *, exact: bool) -> float:
    """Return the worst ‖out − ref‖ / ‖ref‖ over the outputs, in float64, or raise Wrong.

    With `exact`, and for whole numbers always, the outputs must be equal bit for bit (NaN equals NaN),
    and the error is 0. Where the reference is not finite the output must be the very same.
    """
    if len(outputs) != len(expected):
        message = f"returned {len(outputs)} tensors, the reference {len(expected)}"
        raise Wrong(message)
    worst = 0.0
    for number, (out, ref) in enumerate(zip(outputs, expected, strict=True)):
        _check_form(out, ref, number, exact=exact)
        inexact = not exact and (ref.is_floating_point() or ref.is_complex())
        worst = max(worst, _relative(out, ref) if inexact else _exact(out, ref))
    return worst


def check_reference(expected: Outputs) -> None:
    """Raise Wrong for a reference that could match by accident: each output all NaN, all zero or empty.

    One such output beside others that are not is an answer like any other.
    """
    reasons = [_void(ref) for ref in expected]
    if all(reasons):
        raise Wrong(
            f"the reference is {reasons[0]}: it proves nothing" if reasons else "is nothing"
        )


def _void(ref: torch.Tensor) -> str:
    """Say in what way a tensor says nothing; empty where it says something."""
    if ref.numel() == 0:
        return "empty"
    values = ref.double() if ref.is_floating_point() else _bits(ref)
    if ref.is_floating_point() and bool(torch.isnan(values).all()):
        return "all NaN"
    return "" if bool(values.any()) else "all zero"


def _check_form(out: torch.Tensor, ref: torch.Tensor, number: int, *, exact: bool) -> None:
    if out.shape != ref.shape:
        message = f"output {number} has shape {list(out.shape)}, not {list(ref.shape)}"
        raise Wrong(message)
    kinds = [(each.is_floating_point(), each.is_complex()) for each in (out, ref)]
    whole = not any(kinds[1])
    if out.dtype != ref.dtype and (exact or whole or kinds[0] != kinds[1]):
        message = f"output {number} is {out.dtype}, not {ref.dtype}"
        raise Wrong(message)
    if out.device.type != ref.device.type:
        message = f"output {number} is on {out.device.type}, not on {ref.device.type}"
        raise Wrong(message)


def _exact(out: torch.Tensor, ref: torch.Tensor) -> float:
    if torch.equal(_bits(out), _bits(ref)):
        return 0.0
    differs = (_bits(out) != _bits(ref)).any(dim=-1)
    if out.is_floating_point():
        differs &= ~(torch.isnan(out) & torch.isnan(ref))
    count = int(differs.sum())
    if count == 0:
        return 0.0
    message = f"{count} of {out.numel()} elements differ"
    raise Wrong(message)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of each element along a last axis of its own, so that -0 is not +0."""
    return tensor.contiguous().unsqueeze(-1).view(torch.uint8)


def _relative(out: torch.Tensor, ref: torch.Tensor) -> float:
    """Return the larger of ‖out − ref‖ / ‖ref‖ and max|out − ref| / max|ref|: the second sees one
    wrong element among millions, which the first averages away.
    """
    if ref.is_complex():
        out, ref = torch.view_as_real(out), torch.view_as_real(ref)
    difference = norm = worst = largest = 0.0
    for part, whole in zip(_chunks(out), _chunks(ref), strict=True):
        ours, theirs = part.double(), whole.double()
        found = _sizes(ours, theirs)
        if not all(map(math.isfinite, found)):
            found = _sizes(*_finite(ours, theirs))
        difference += found[0]
        norm += found[1]
        worst = max(worst, found[2])
        largest = max(largest, found[3])
    if largest == 0.0:
        return 0.0 if worst == 0.0 else float("inf")
    return float(max((difference / norm) ** 0.5, worst / largest))


def _sizes(ours: torch.Tensor, theirs: torch.Tensor) -> list[float]:
    """Return ‖ours - theirs‖², ‖theirs‖², max|ours - theirs| and max|theirs|, read at once."""
    if not theirs.numel():
        return [0.0] * 4
    gap = (ours - theirs).abs()
    sizes = [gap.square().sum(), theirs.square().sum(), gap.max(), theirs.abs().max()]
    return list(map(float, torch.stack(sizes).tolist()))


def _finite(ours: torch.Tensor, theirs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both where the reference is finite; raise Wrong where ours differs elsewhere or is not."""
    finite = torch.isfinite(theirs)
    one, two = ours[~finite], theirs[~finite]
    if not bool(((one == two) | (one.isnan() & two.isnan())).all()):
        message = "differs where the reference is not finite"
        raise Wrong(message)
    if not bool(torch.isfinite(ours[finite]).all()):
        message = f"{int((~torch.isfinite(ours[finite])).sum())} elements are NaN or infinite"
        raise Wrong(message)
    return ours[finite], theirs[finite]


def _chunks(tensor: torch.Tensor) -> list[torch.Tensor]:
    return list(tensor.reshape(-1).split(CHUNK))


def floor_seconds(traffic: float | None, l2_bytes: float, bandwidth: float | None) -> float:
    """Return the least seconds for `traffic` bytes at `bandwidth`, if the L2 may keep its own size.

    A call that starts cold can leave at most an L2 full of writes behind, so only the rest must
    have crossed the memory's pins. 0 where either is not known.
    """
    if not traffic or not bandwidth:
        return 0.0
    return max(0.0, traffic - l2_bytes) / bandwidth
