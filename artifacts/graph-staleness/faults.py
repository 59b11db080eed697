"""Dispatchers that forget something, on purpose: what comes out, and which check says so.

Every case is carved out of larger memory, and the first call's memory stays alive, so that a graph
that is told too little reads and writes where it may, and the process lives to count it.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from cache import Entry
from cases import SCALES, Case, Machine, Size, draw
from dispatcher import Dispatcher
from graph import StaleGraph, Values
from kernel import SplitK
from memory import addresses_of, bits
from shared.dsa import LOG2_E
from shared.splitk import Plan
from torch import Tensor

SCRATCH = ("partial", "partial_lse")
REPORTED = ("q_nope", "q_pe", "ckv", "kpe", "indices", "output", "lse")  # the seven, by our names
CHECK_NAMES = {
    "switch": "switch",
    "audit": "audit",
    "plain_audit": "audit without poison",
    "shadow": "shadow",
    "other_shadow": "shadow by Triton",
}
CHECKS = tuple(CHECK_NAMES)


@dataclass(frozen=True)
class Fault:
    """What is wrong: parameters never patched, as (node, name), or what the key leaves out.

    `second` changes the second call's size; `scratch` gives it other scratch memory than the first;
    `scale` gives it another scalar; `operation` is what has the list of values.
    """

    subject: str
    node: str
    reduction: str
    forgotten: frozenset[tuple[str, str]] = frozenset()
    missing: str = ""
    second: Callable[[Size], Size] = lambda size: size
    scratch: bool = True
    scale: bool = True
    operation: type[SplitK] = SplitK


class Unscaled(SplitK):
    """Has a list of values that is wrong for every launch alike: its scale is not in base 2."""

    def values(
        self, addresses: Sequence[int], scalars: Sequence[float], scratch: Sequence[int]
    ) -> Values:
        """Return the values of a scale that is too small by log2 e."""
        return super().values(addresses, [scalars[0] / LOG2_E], scratch)


# region: broken
class Broken(Dispatcher):
    """Forgets what its fault says; `poisons` is whether an audit poisons the buffers first."""

    fault: Fault
    poisons = True

    def _write(self, entry: Entry, values: Values) -> None:
        """Write the parameters and then undo the forgotten ones."""
        for arguments, step in zip(entry.graph.arguments, entry.graph.steps, strict=True):
            before = bytes(arguments.buffer)
            arguments.write(values[entry.graph.steps.index(step)])
            for place, name in enumerate(step.layout.names):
                if (step.name, name) in self.fault.forgotten:
                    slot = slice(8 * place, 8 * place + 8)
                    arguments.buffer[slot] = before[slot]

    def _poison(self, entry: Entry) -> None:
        if self.poisons:
            super()._poison(entry)

    def _key(
        self,
        tensors: Sequence[Tensor],
        scalars: Sequence[float],  # noqa: ARG002 - the one scalar is no integer
        stream: int,
    ) -> Hashable:
        """Return the key without what the fault leaves out."""
        tokens, width = tensors[4].shape
        known = {"tokens": tokens, "width": width}
        known.pop(self.fault.missing, None)
        return (stream, *known.values())

    def change_scratch(self, tensors: Sequence[Tensor]) -> None:
        """Give the only entry other scratch memory, as if the allocator had, and wrong numbers in it.

        Fresh memory could hold the right ones, from an earlier call with the same data.
        """
        (entry,) = self._entries.values()
        entry.scratch = self.operation.scratch(tensors)
        for tensor in entry.scratch[: len(SCRATCH)]:
            tensor.fill_(7.0)
        entry.scratch_addresses = addresses_of(entry.scratch)

    def held(self) -> list[Tensor]:
        """Return the only entry's scratch."""
        (entry,) = self._entries.values()
        return list(entry.scratch)


# endregion


def faults(names: dict[str, list[tuple[str, list[str]]]]) -> Iterator[Fault]:
    """Make a row for each parameter of each node, of each plan; then those that are about several.

    `names` is, for each reduction, the nodes and the names of their parameters.
    """
    for reduction, nodes in names.items():
        yield Fault("nothing", "all", reduction)
        for node, parameters in nodes:
            for name in parameters:
                yield Fault(name, node, reduction, frozenset({(node, name)}))
        everywhere = frozenset((node, name) for node, _ in nodes for name in SCRATCH)
        yield Fault("partial and partial_lse", "all", reduction, everywhere)
        rest = [(node, name) for node, known in nodes for name in known if name not in REPORTED]
        reported = frozenset(rest)
        yield Fault("all but seven pointers", "all", reduction, reported, scratch=False)
        yield Fault("all but seven pointers, same scale", "all", reduction, reported,
                    scratch=False, scale=False)  # fmt: skip
        for subject, missing, change in SHAPES:
            yield Fault(subject, "key", reduction, missing=missing, second=change, scratch=False)
        yield Fault("scale", "list", reduction, operation=Unscaled)


SHAPES: tuple[tuple[str, str, Callable[[Size], Size]], ...] = (
    ("more tokens", "tokens", lambda size: size._replace(tokens=2 * size.tokens)),
    ("fewer tokens", "tokens", lambda size: size._replace(tokens=size.tokens // 2)),
    ("longer lists", "width", lambda size: size._replace(width=2 * size.width)),
    ("shorter lists", "width", lambda size: size._replace(width=size.width // 2)),
)


def parameters(machine: Machine, plan: Plan, case: Case) -> list[tuple[str, list[str]]]:
    """Return the nodes of a plan's launch, and the names of all their parameters."""
    steps = SplitK(plan, machine.load).steps(case.tensors)
    return [(step.name, list(step.layout.names)) for step in steps]


def examine(
    machine: Machine, plan: Plan, fault: Fault, size: Size, seed: int, device: torch.device
) -> dict[str, int]:
    """Make two calls with a broken dispatcher, and again with each check on; return what was found."""
    operation = fault.operation(plan, machine.load)

    def other(tensors: Sequence[Tensor], scalars: Sequence[float]) -> None:
        machine.start(plan, tensors, scalars[0], operation.scratch(tensors))

    def calls() -> tuple[Case, Case]:
        scale = SCALES[1] if fault.scale else SCALES[0]
        first = draw(size, seed, SCALES[0], device)
        return first, draw(fault.second(size), seed + 1, scale, device)

    first, second = calls()
    broken = make(machine, operation, fault)
    corrupted = two_calls(broken, first, second)
    broken.cache = False
    outputs = [output.clone() for output in second.tensors[5:]]
    found: dict[str, int] = {
        "wrong_elements": second.wrong(),
        "unwritten_elements": sum(int(torch.isnan(output).sum()) for output in outputs),
        "corrupted_elements": corrupted,
    }
    broken(second.tensors, second.scale)
    pairs = zip(outputs, second.tensors[5:], strict=True)
    caught = {"switch": any(not torch.equal(bits(a), bits(b)) for a, b in pairs)}
    broken.close()
    for check, options in (
        ("audit", {"audit_every": 1}),
        ("plain_audit", {"audit_every": 1}),
        ("shadow", {"shadow_every": 1}),
        ("other_shadow", {"shadow_every": 1, "launcher": other}),
    ):
        broken = make(machine, operation, fault, **options)
        broken.poisons = check == "audit"
        caught[check] = raises(broken, *calls())
        broken.close()
    return found | {f"caught_by_{check}": int(caught[check]) for check in CHECKS}


def make(machine: Machine, operation: SplitK, fault: Fault, **options: Any) -> Broken:
    """Make a dispatcher that has the fault."""
    broken = Broken(machine.driver, operation, **options)
    broken.fault = fault
    return broken


def two_calls(broken: Broken, first: Case, second: Case) -> int:
    """Make both calls; count the elements that the second changed and that are none of its own."""
    broken(first.tensors, first.scale)
    held = broken.held()
    if broken.fault.scratch:
        broken.change_scratch(first.tensors)
        watched = [*held, *first.around]
    else:
        watched = list(first.around)
    tokens = len(second.tensors[0])
    watched += [output[tokens:] for output in second.around]
    before = [tensor.clone() for tensor in watched]
    broken(second.tensors, second.scale)
    pairs = zip(before, watched, strict=True)
    return sum(int((bits(old) != bits(new)).sum()) for old, new in pairs)


def raises(broken: Broken, first: Case, second: Case) -> bool:
    """Tell whether a check stops one of the two calls."""
    try:
        two_calls(broken, first, second)
    except StaleGraph:
        return True
    return False
