"""Facts of a layer that are no times: operations, autograd nodes, saved and peak bytes, graph breaks."""

import functools
import re
import statistics
import time
import weakref
from contextlib import contextmanager

import torch
from shared.bitnet_cases import draw
from shared.bitnet_reference import step as exact_step
from shared.bitnet_torchao import leaf_of
from torch.overrides import _pop_mode_temporarily
from torch.utils._python_dispatch import TorchDispatchMode

KINDS = (
    (
        "matmul",
        re.compile(r"gemm|nvjet|cutlass|wgmma|xmma|int8_mm|\bmm\b|s8s8|imma", re.IGNORECASE),
    ),
    ("triton", re.compile(r"^triton_")),
    ("norm", re.compile(r"norm", re.IGNORECASE)),
    ("reduction", re.compile(r"reduce", re.IGNORECASE)),
    ("copy", re.compile(r"copy|fill|memcpy|memset", re.IGNORECASE)),
    ("elementwise", re.compile(r"elementwise", re.IGNORECASE)),
)
_ALIAS = ("detach", "view", "alias", "expand", "t", "transpose", "unsqueeze", "squeeze", "select",
          "slice", "permute", "as_strided", "_unsafe_view", "lift_fresh", "reshape", "split")  # fmt: skip


class Operations(TorchDispatchMode):
    """Counts what reaches a device: operations of ATen, without those that only make a view."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function._schema.name.partition("::")[2]
        if name not in _ALIAS:
            self.names.append(name)
        return function(*args, **(kwargs or {}))


def operations(call):
    """Return the names of the operations of `call()`, in order."""
    with Operations() as seen:
        call()
    return seen.names


def kind_of(kernel):
    """Return what sort of kernel a name belongs to."""
    return next((kind for kind, pattern in KINDS if pattern.search(kernel)), "other")


def forward(way, name, x, weight, gain, _=None):
    """Return y of fresh leaves, which keeps what a backward would need."""
    return way(x.detach().requires_grad_(), leaf_of(name, weight), gain.detach().requires_grad_())


def step(way, name, x, weight, gain, gradient, every=1):
    """Return y and the gradients of x and of the weight (all are computed, every so manieth row returned)."""
    with torch.enable_grad():
        leaves = x.detach().requires_grad_(), leaf_of(name, weight), gain.detach().requires_grad_()
        y = way(*leaves)
        of_x, of_weight, _ = torch.autograd.grad(y, leaves, gradient, allow_unused=True)
    return y.detach()[::every], of_x[::every], of_weight[::every]


def usable(ways, case):
    """Return the ways that make a step on a case; why another does not is printed."""
    found = {}
    for name, way in ways.items():
        try:
            step(way, name.removesuffix(", compiled"), *case)
            settle(case[0].device)
        except Exception as error:  # noqa: BLE001 - a way, a package or a compiler raises as it likes
            print(f"{name}: {type(error).__name__}: {error}")  # noqa: T201 - for who reads the output
        else:
            found[name] = way
    return found


def nodes(output):
    """Return the names of the autograd nodes behind a tensor, without the leaves'."""
    seen, pending, names = set(), [output.grad_fn], []
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name() != "torch::autograd::AccumulateGrad":
            names.append(node.name())
        pending += [before for before, _ in node.next_functions]
    return names


class _Kept:
    """A saved tensor, for as long as a node of the graph holds it."""

    def __init__(self, tensor):
        self.tensor = tensor.detach()


def saved_bytes(call, given):
    """Return the bytes that the output of `call()` keeps for a backward, without those of `given`.

    Only what is alive when the call is over counts: a node that was cut off has let its tensors go. Each
    storage counts once.
    """
    kept, own = [], {each.untyped_storage().data_ptr() for each in given}

    def pack(tensor):
        held = _Kept(tensor)
        kept.append(weakref.ref(held))
        return held

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda held: held.tensor):
        output = call()
    alive = [held.tensor.untyped_storage() for each in kept if (held := each()) is not None]
    sizes = {storage.data_ptr(): storage.nbytes() for storage in alive}
    del output
    return sum(size for at, size in sizes.items() if at not in own)


def peak_bytes(call):
    """Return the most memory that `call()` holds on the GPU beyond what was there."""
    call()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def held_bytes(call):
    """Return the bytes on the GPU that the output of `call()` keeps alive beside itself, compiled or not."""
    call()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    output = call()
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated() - before - output.untyped_storage().nbytes()


# region: breaks
def breaks(call, *arguments):
    """Return the breaks in the graph of `call(*arguments)`, forward and backward.

    With `fullgraph=True` dynamo raises at the first: where it does not, there is none. Where it does, the
    graphs are counted: one more than one is a break, and so is a call that is left out whole.
    """
    torch._dynamo.reset()
    try:
        compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
        compiled(*arguments).float().sum().backward()
    except Exception:  # noqa: BLE001 - dynamo, AOT and the call raise as they like
        torch._dynamo.reset()
        return max(1, torch._dynamo.explain(call)(*arguments).graph_break_count)
    return 0


# endregion


@contextmanager
def plain():
    """Within it no mode of torch's functions is on: compiled code is the same in a check and in a timing."""
    if torch._C._len_torch_function_stack():
        with _pop_mode_temporarily():
            yield
    else:
        yield


def compiled(way, **options):
    """Return a way that torch.compile traces whole, with the options given."""
    traced = torch.compile(way, **options)

    def call(*arguments):
        with plain():
            return traced(*arguments)

    return call


def settle(device):
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def wall_seconds(calls, device, *, rounds, each=1):
    """Return by name the seconds of a call, host and device together, as a training loop sees them.

    In every round each call is made `each` times in a row, between two waits for the device; the calls
    take turns. The first round warms up and is dropped.
    """
    found = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name in list(calls)[number % len(calls) :] + list(calls)[: number % len(calls)]:
            settle(device)
            begin = time.perf_counter()
            for _ in range(each):
                calls[name]()
            settle(device)
            if number:
                found[name].append((time.perf_counter() - begin) / each)
    return found


def ratio(seconds, name, over):
    """Return the median time of one call by that of another."""
    return statistics.median(seconds[name]) / statistics.median(seconds[over])


def bound_step(way, name, case, every=1):
    """Return a call of no arguments that makes one step on a case (x, weight, gain, gradient)."""
    return functools.partial(step, way, name, *case, every)


def compare_steps(run, ways, tokens, width, out, *, tolerance, samples):
    """Time a step of each way on the device, and compare y and the gradients with the float64 ones.

    Of large outputs every sixteenth row is compared.
    """
    every = 16 if tokens >= 8192 else 1

    def bound(name, way):
        return lambda *case: step(way, name.removesuffix(", compiled"), *case, every)

    run.compare(
        subjects={name: bound(name, way) for name, way in ways.items()},
        reference=lambda *case: exact_step(*case, every),
        inputs=lambda seed: draw(tokens, width, out, seed, run.device),
        tolerance=tolerance,
        work=6 * tokens * width * out,
        samples=samples,
        part="step",
        tokens=tokens,
        width=width,
        out=out,
    )
