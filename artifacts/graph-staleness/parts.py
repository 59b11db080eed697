"""What a call of the dispatcher is made of, each part alone, and what only the host's clock can time."""

from typing import Any

from cases import Machine
from graph import PatchedGraph
from kernel import outputs_for
from paths import Outputs, Prepared, Way, dispatched, once
from shared.splitk import Plan


def update_alone(prepared: Prepared) -> Way:
    """Setting every node, without a launch and without writing anything new."""
    graph = PatchedGraph(prepared.driver, prepared.steps, prepared.values)

    def way(*_: Any) -> Outputs:
        graph.update()
        return ()

    return way


def audit_alone(prepared: Prepared) -> Way:
    """Poisoning, writing, setting, reading back and comparing every node, without a launch."""
    graph = PatchedGraph(prepared.driver, prepared.steps, prepared.values)

    def way(*_: Any) -> Outputs:
        for arguments in graph.arguments:
            arguments.poison()
        graph.write(prepared.values)
        graph.update_audited(prepared.steps, prepared.values)
        return ()

    return way


def outputs_alone(_: Prepared) -> Way:
    """Allocating the outputs."""
    return lambda *given: outputs_for(given[0])


def check_alone(prepared: Prepared) -> Way:
    """Checking all tensors and naming the kernels: what the key of a cached graph stands for."""

    def way(*_: Any) -> Outputs:
        prepared.operation.steps(prepared.tensors)
        return ()

    return way


def host_only_ways(machine: Machine, plan: Plan) -> dict[str, Way]:
    """Return what has no time on the device of its own, or waits for the device."""
    made = {
        "update alone": update_alone,
        "audit alone": audit_alone,
        "outputs alone": outputs_alone,
        "check alone": check_alone,
        "dispatcher, shadow each call": lambda prepared: dispatched(prepared, shadow_every=1),
        "dispatcher, both every 64": lambda prepared: dispatched(
            prepared, audit_every=64, shadow_every=64
        ),
    }
    return {name: once(machine, plan, make) for name, make in made.items()}
