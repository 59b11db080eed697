"""Records the fault table: a row for each fault, and how many faults of each kind each check misses."""

import re
from typing import Any

from cases import SCALES, Case, Machine, Size, draw
from faults import CHECK_NAMES, CHECKS, Fault, examine, faults, parameters
from kernel import SplitK
from shared.splitk import Plan


def parameters_read(run: Any, operation: SplitK, reduction: str, case: Case) -> None:
    """Count the parameters of each compiled kernel, and those that its code reads at all."""
    for step, loaded in zip(
        operation.steps(case.tensors), operation.kept(case.tensors), strict=False
    ):
        read = set(re.findall(r"ld\.param\.\w+[^\[]*\[(\w+)", loaded.kept.asm["ptx"]))
        where = {"subject": step.name, "unit": "parameters", "reduction": reduction}
        run.count("parameters", len(step.layout.names), **where)
        run.count("parameters_read", len(read), **where)


def record(run: Any, machine: Machine, plans: dict[str, Plan], size: Size) -> None:
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
    "hidden" neither, this time; "list" is a list of values that is wrong for every launch alike.
    """
    kinds: dict[str, list[dict[str, int]]] = {
        "wrong": [], "elsewhere": [], "hidden": [], "list": []
    }  # fmt: skip
    for fault, found in rows:
        if fault.subject == "nothing":
            continue
        harmless = "elsewhere" if found["corrupted_elements"] else "hidden"
        kind = "wrong" if found["wrong_elements"] else harmless
        kinds["list" if fault.node == "list" else kind].append(found)
    for kind, members in kinds.items():
        run.count("faults", len(members), unit="faults", subject="table", kind=kind)
        for check in CHECKS:
            missed = sum(not found[f"caught_by_{check}"] for found in members)
            run.count("missed", missed, unit="faults", subject=CHECK_NAMES[check], kind=kind)
