"""Where the allocator puts things, and what a graph that forgets its output makes of that."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from cases import Case, Machine, Size, draw
from dispatcher import Dispatcher
from faults import Fault, make
from kernel import SplitK, outputs_for
from memory import bits
from shared.dsa import SM_SCALE
from shared.splitk import Plan
from torch import Tensor

HABITS = ("kept until the next", "dropped at once", "all kept")


def distinct(run: Any, tokens: int, calls: int) -> None:
    """Count the addresses of outputs, and of inputs cloned for each call, over `calls` calls.

    And the calls at which none of them had moved: those where an update could be left out.
    """
    case = draw(Size(tokens, 64, 2), run.seed, SM_SCALE, run.device)
    for habit in HABITS:
        seen: list[tuple[int, ...]] = []
        kept: list[Any] = []
        for _ in range(calls):
            if habit == "dropped at once":
                kept.clear()
            made = [*(tensor.clone() for tensor in case.tensors[:2]), *outputs_for(case.tensors[0])]
            seen.append(tuple(tensor.data_ptr() for tensor in made))
            if habit != "all kept":
                kept.clear()
            kept.append(made)
            del made
        unmoved = sum(before == after for before, after in itertools.pairwise(seen))
        where = {"calls": calls, "tokens": tokens}
        places = len({each[2] for each in seen})
        run.count("addresses", places, unit="addresses", subject=habit, **where)
        run.count("unmoved_calls", unmoved, unit="calls", subject=habit, **where)


def in_turn(q_nope: Tensor, places: int) -> Callable[[Tensor], list[Tensor]]:
    """Return an allocator of outputs that gives the same `places` one after the other."""
    turns = itertools.cycle([outputs_for(q_nope) for _ in range(places)])
    return lambda _: next(turns)


def forgotten_output(run: Any, machine: Machine, plan: Plan, size: Size, calls: int) -> None:
    """Count wrong calls of a graph whose outputs are never patched, by where the outputs lie."""
    cases = [draw(size, run.seed + number, SM_SCALE, run.device) for number in range(2)]
    q_nope = cases[0].tensors[0]
    habits = {
        "one address": (in_turn(q_nope, 1), False),
        "two addresses in turn": (in_turn(q_nope, 2), False),
    }
    if (
        not run.tiny
    ):  # torch's allocator keeps what it was given back; others may not: that is fatal
        habits |= {habit: (outputs_for, habit == "dropped at once") for habit in HABITS[:2]}
    for habit, (allocate, dropped) in habits.items():
        wrong = wrong_calls(machine, plan, cases, calls, allocate, dropped=dropped)
        run.count("wrong_calls", wrong, unit="calls", subject=habit, calls=calls)


def wrong_calls(
    machine: Machine, plan: Plan, cases: Sequence[Case], calls: int,
    allocate: Callable[[Tensor], list[Tensor]], *, dropped: bool,
) -> int:  # fmt: skip
    """Count the calls that return wrong bits where the graph's outputs are never patched.

    `dropped`: each result is let go before the next is allocated, and not after.
    """
    node = "split" if plan.reduction == "last" else "reduce"
    fault = Fault("outputs", node, plan.reduction, frozenset({(node, "output"), (node, "lse")}))
    broken = make(machine, SplitK(plan, machine.load), fault)
    expected = [_right(machine, plan, case) for case in cases]
    wrong, outputs = 0, None
    for number in range(calls):
        case = cases[number % 2]
        if dropped:
            outputs = None
        outputs = [each.fill_(torch.nan) for each in allocate(case.tensors[0])]
        broken([*case.tensors[:5], *outputs], case.scale)
        wrong += differ(outputs, expected[number % 2])
    broken.close()
    return wrong


def differ(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> bool:
    """Tell whether any bit differs; keeps no tensor alive, which would move the next ones."""
    return any(bool((bits(a) != bits(b)).any()) for a, b in zip(ours, theirs, strict=True))


def _right(machine: Machine, plan: Plan, case: Case) -> list[Tensor]:
    fault = Fault("nothing", "all", plan.reduction)
    sound = make(machine, SplitK(plan, machine.load), fault, cache=False)
    sound(case.tensors, case.scale)
    return [tensor.clone() for tensor in case.tensors[5:]]


def two_streams(run: Any, machine: Machine, plan: Plan, size: Size, calls: int) -> None:
    """Count wrong elements where two streams take turns with the same shapes, each its own data."""
    dispatcher = Dispatcher(machine.driver, SplitK(plan, machine.load))
    cases = [draw(size, run.seed + number, SM_SCALE, run.device) for number in range(2)]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in cases]
    for _ in range(calls):
        for case, stream in zip(cases, streams, strict=True):
            with torch.cuda.stream(stream):
                dispatcher(case.tensors, case.scale)
    torch.cuda.synchronize()
    wrong = sum(case.wrong() for case in cases)
    run.count("wrong_elements", wrong, unit="elements", subject="dispatcher", streams=2)
