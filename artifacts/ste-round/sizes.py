"""Steps at seven sizes as a training loop sees them: eager, compiled, and each replayed as a CUDA graph."""

from functools import partial

import kernel
from kernel import any_tokens, compiled_ways
from layers import MAIN, Leaves, step
from replay import Repeated
from shared.bitnet_cases import draw
from shared.bitnet_evidence import ratio, usable, wall_seconds
from shared.bitnet_variants import WAYS, available

SIZES = [(4096, 2048, 2048), (2048, 2048, 2048), (256, 2048, 2048), (8192, 4096, 4096),
         (8192, 4096, 14336), (16384, 4096, 4096), (16384, 8192, 8192)]  # fmt: skip
"""Tokens, width, out. The widest of the narrow comes first: for it their common graph is tuned."""
EAGER = ("linear, normed", "functions", "round only", "round only, scales detached")
COMPILED = ("functions", "round only")
NARROW = 2048  # the width of which one graph serves all numbers of tokens
APART = 0.05  # by the root of the squares: so far may a compiled or replayed step lie from the eager one
RATIOS = (
    ("replay_gain", "{way}", "{way}, graph", EAGER),
    ("compiled_replay_gain", "{way}, compiled", "{way}, compiled, graph", COMPILED),
    ("compiler_gain", "{way}, graph", "{way}, compiled, graph", COMPILED),
    ("over_round", "round only, graph", "{way}, graph", EAGER),
    ("compiled_over_round", "round only, compiled, graph", "{way}, compiled, graph", COMPILED),
)
"""Metric, the time that is divided, the time that it is divided by, and for which ways."""


# region: sizes
def at_sizes(run, compiled):
    """Time a step of each way in four modes at every size, with the weights of the comparisons."""
    for sizes in SIZES:
        case = draw(*sizes, run.seed, run.device)
        ways = {name: WAYS[name] for name in EAGER}
        for name in COMPILED:
            ways[f"{name}, compiled"] = fitting(compiled[f"{name}, compiled"], sizes)
        in_turns(run, usable(ways, case), case, sizes)


def in_turns(run, ways, case, sizes):
    """Time the ways as they are and replayed, and record the times and their ratios."""
    leaves, every = Leaves(), 16 if sizes[0] >= 8192 else 1
    calls = {name: partial(step, way, name, leaves, case, every) for name, way in ways.items()}
    calls = {name: call for name, call in calls.items() if agrees(name, calls)}
    calls |= replayed(calls)
    long = sizes[0] * sizes[2] >= 8192 * 4096
    found = wall_seconds(calls, run.device, rounds=3 if long else 5, each=1 if long else 3)
    where = dict(zip(("tokens", "width", "out"), sizes, strict=True))
    for name, seconds in found.items():
        run.count("loop_time", seconds, unit="s", subject=name, **where)
    for metric, over, under, names in RATIOS:
        for way in names:
            one, two = over.format(way=way), under.format(way=way)
            if one in found and two in found:
                run.count(metric, ratio(found, one, two), unit="ratio", subject=way, **where)


# endregion


def loaded(run):
    """Return the compiled ways by name, each called at all its sizes, while other processes are at work."""
    names = [name for name in kernel.COMPILED if name in available()]
    ways = compiled_ways(names)
    for name in names:
        try:
            call_at_all(ways[f"{name}, compiled"], name, run.device)
        except Exception as error:  # noqa: BLE001 - a compiler raises as it likes; where it is timed it says so
            print(f"{name}: not compiled: {str(error)[:300]}")  # noqa: T201 - for who reads it
    return ways


def call_at_all(way, name, device):
    """Call a compiled way once at each size at which it is timed: it is compiled there, or loaded."""
    for sizes in [MAIN] + [each for each in SIZES if name in COMPILED and each != MAIN]:
        step(fitting(way, sizes), name, Leaves(), draw(*sizes, 1, device))


def fitting(way, sizes):
    """Return a compiled way as it is called at a size: where it is narrow, for any number of tokens."""
    return any_tokens(way) if sizes[1] == NARROW else way


def agrees(name, calls):
    """Return whether a compiled step gives what the eager one does; an eager one always agrees."""
    own = name.removesuffix(", compiled")
    return own == name or own not in calls or close(name, calls[name](), calls[own]())


def replayed(calls):
    """Return, as `name, graph`, what replays each call that can be captured and gives the same answer."""
    found = {f"{name}, graph": replay_of(f"{name}, graph", call) for name, call in calls.items()}
    return {name: replay for name, replay in found.items() if replay is not None}


def replay_of(name, call):
    """Return what replays a call, or None. Nothing here holds itself, so a graph goes with its last user."""
    outputs = []

    def work():
        outputs[:] = call()

    repeated = Repeated(work, on_gpu=True, eager=1)
    repeated.again()
    repeated.join()
    expected = list(outputs)
    repeated.again()
    repeated.join()
    alike = repeated.replayed and close(name, outputs, expected)
    return repeated.graph.replay if alike else None


def close(name, found, expected):
    """Return whether outputs are those that are expected; where they are not, that is printed."""
    pairs = zip(found, expected, strict=True)
    worst = max(float((one - two).float().norm() / two.float().norm()) for one, two in pairs)
    if not worst <= APART:  # which a NaN is not either
        print(f"{name}: apart by {worst}, so it is not timed")  # noqa: T201 - for who reads it
    return worst <= APART
