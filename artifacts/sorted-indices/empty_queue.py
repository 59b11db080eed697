"""What a sort costs a harness that starts each call on an idle GPU: the host's time shows.

`compare` keeps the queue full, so that only the device's time is left; here two CUDA events stand
around one call, nothing is queued before it, and whatever the host does between launches is inside.
"""

from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from captured import capture
from orders import wrong_tokens
from shared.dsa import Problem, reference
from shared.splitk import Plan, splitk
from torch import Tensor

SAMPLES = 21
FLUSH_BYTES = 2**27  # twice the L2


# region: two events
def event_seconds(call: Callable[[], object], flush: Tensor, samples: int = SAMPLES) -> list[float]:
    """Time single calls between two events; before each, the L2 is emptied and the GPU idle."""
    call()
    found = []
    for _ in range(samples):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        torch.cuda.synchronize()
        start.record()
        call()
        stop.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(stop) * 1e-3)
    return found


# endregion


def ways_of(drawn: Problem, plan: Plan) -> dict[str, Callable[[], tuple[Tensor, Tensor]]]:
    """Return the kernel alone and after a sort, launched by the host and replayed from a graph."""
    attend, given = partial(splitk, plan=plan), drawn.sparse_indices
    alone, outputs = capture(attend, drawn)
    place = torch.empty_like(given)
    behind, outputs_behind = capture(attend, drawn._replace(sparse_indices=place.copy_(given)))

    def sorted_in_the_call():
        return attend(*drawn._replace(sparse_indices=torch.sort(given, dim=1).values))

    def replayed():
        alone.replay()
        return outputs

    def sorted_then_replayed():
        place.copy_(torch.sort(given, dim=1).values)
        behind.replay()
        return outputs_behind

    return {
        "as given": partial(attend, *drawn),
        "sorted in the call": sorted_in_the_call,
        "as given, in a graph": replayed,
        "sorted, then the graph": sorted_then_replayed,
    }


def empty_queue(run, drawn: Problem, plan: Plan, **workload) -> None:
    """Record event times, how many times as long a sort makes a call, and the tokens that are wrong."""
    ways, (answer, _) = ways_of(drawn, plan), reference(*drawn)
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=run.device)
    taken = {}
    for name, call in ways.items():
        taken[name] = event_seconds(call, flush)
        wrong = wrong_tokens(call()[0], answer)
        run.count("event_time", taken[name], unit="s", subject=name, **workload)
        run.count("wrong_outputs", wrong, unit="tokens", subject=name, **workload)
    for name, over in (
        ("sorted in the call", "as given"),
        ("sorted, then the graph", "as given, in a graph"),
    ):
        times = median(taken[name]) / median(taken[over])
        run.count("times_as_long", times, unit="ratio", subject=name, **workload)
