"""Dispatchers that forget something, on purpose: what comes out, and which check says so.

Every case is carved out of larger memory, and the first call's memory stays alive, so that a graph
that is told too little reads and writes where it may, and the process lives to count it.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from cases import SCALES, Case, Machine, Size, draw
from dispatcher import Dispatcher, Entry, addresses_of, bits
from graph import StaleGraph, Values
from kernel import SplitK
from shared.splitk import Plan
from torch import Tensor

SCRATCH = ("partial", "partial_lse")
REPORTED = ("q_nope", "q_pe", "ckv", "kpe", "indices", "output", "lse")  # the seven, by our names
CHECK_NAMES = {
    "switch": "switch",
    "audit": "audit",
    "plain_audit": "audit without poison",
    "shadow": "shadow",
}
CHECKS = tuple(CHECK_NAMES)


@dataclass(frozen=True)
class Fault:
    """What is wrong: parameters never patched, as (node, name), or what the key leaves out.

    `second` changes the second call's size; `scratch` gives it other scratch memory than the first;
    `scale` gives it another scalar.
    """

    subject: str
    node: str
    reduction: str
    forgotten: frozenset[tuple[str, str]] = frozenset()
    missing: str = ""
    second: Callable[[Size], Size] = lambda size: size
    scratch: bool = True
    scale: bool = True


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

    def _key(self, tensors: Sequence[Tensor], stream: int) -> Hashable:
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
    operation = SplitK(plan, machine.load)

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


def parameters_read(run: Any, operation: SplitK, reduction: str, case: Case) -> None:
    """Count the parameters of each compiled kernel, and those that its code reads at all."""
    for step, loaded in zip(
        operation.steps(case.tensors), operation.kept(case.tensors), strict=False
    ):
        read = set(re.findall(r"ld\.param\.\w+[^\[]*\[(\w+)", loaded.kept.asm["ptx"]))
        where = {"subject": step.name, "unit": "parameters", "reduction": reduction}
        run.count("parameters", len(step.layout.names), **where)
        run.count("parameters_read", len(read), **where)


def table(run: Any, machine: Machine, plans: dict[str, Plan], size: Size) -> None:
    """Record a row for every fault."""
    case = draw(size, run.seed, SCALES[0], run.device)
    if run.on_gpu:
        for name, plan in plans.items():
            parameters_read(run, SplitK(plan, machine.load), name, case)
    names = {name: parameters(machine, plan, case) for name, plan in plans.items()}
    rows: list[tuple[Fault, dict[str, int]]] = []
    for fault in faults(names):
        found = examine(machine, plans[fault.reduction], fault, size, run.seed, run.device)
        where = {"node": fault.node, "reduction": fault.reduction}
        for metric, value in found.items():
            unit = "calls" if metric.startswith("caught") else "elements"
            run.count(metric, value, unit=unit, subject=fault.subject, **where)
        rows.append((fault, found))
    totals(run, rows)


def totals(run: Any, rows: list[tuple[Fault, dict[str, int]]]) -> None:
    """Count the faults by what they do, and those of each kind that each check misses.

    "wrong" has a wrong output; "elsewhere" a right one, and wrote into memory that is not the call's;
    "hidden" neither, this time.
    """
    kinds: dict[str, list[dict[str, int]]] = {"wrong": [], "elsewhere": [], "hidden": []}
    for fault, found in rows:
        if fault.subject == "nothing":
            continue
        harmless = "elsewhere" if found["corrupted_elements"] else "hidden"
        kinds["wrong" if found["wrong_elements"] else harmless].append(found)
    for kind, members in kinds.items():
        run.count("faults", len(members), unit="faults", subject="table", kind=kind)
        for check in CHECKS:
            missed = sum(not found[f"caught_by_{check}"] for found in members)
            run.count("missed", missed, unit="faults", subject=CHECK_NAMES[check], kind=kind)
