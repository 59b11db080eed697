"""Graph breaks of every way of the layer, and of Functions that do one thing more.

To trace them all takes longer than the trainings, and nothing of it is timed: on a GPU a process of its own
does it while the first one trains.

    python breaking.py    prints what it counted, as JSON
"""

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import torch
from kernel import BREAKERS
from shared.bitnet_cases import draw
from shared.bitnet_evidence import breaks
from shared.bitnet_torchao import leaf_of
from shared.bitnet_variants import available

SECONDS = 90


def counted(device):
    """Count dynamo's graph breaks in every way, and in a Function that does one thing more.

    Yield the subject, the part and the breaks, of which 0 means one graph forward and one backward.
    """
    x, weight, gain, _ = draw(64, 64, 64, 1, device)
    ways = available()
    for name in ("linear", "naive, no up-casts"):  # after the norm the first is there as well
        ways.pop(name, None)
    for name, way in ways.items():
        leaves = x.requires_grad_(), leaf_of(name, weight), gain.requires_grad_()
        yield name, "layer", breaks_of(partial(call_way, way), leaves)
    for name, function in BREAKERS.items():
        yield name, "Function", breaks_of(function.apply, (weight.detach().requires_grad_(),))
    torch._dynamo.reset()


def call_way(way, *leaves):
    """Call a way: a plain function, for dynamo."""
    return way(*leaves)


def breaks_of(call, leaves):
    """Count the breaks of a call, and keep what it prints from the log."""

    def traced(*arguments):
        return call(*arguments) * 1.0

    with redirect_stdout(io.StringIO()):  # one of the breakers prints
        return breaks(traced, *leaves)


def start(command=(sys.executable, str(Path(__file__)))):
    """Start a process that counts on the GPU."""
    paths = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": paths}, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def found(process, device, seconds=SECONDS):
    """Return what a process counted; where that failed, or there is none, count here."""
    if process is None:
        return list(counted(device))
    try:
        told, said = process.communicate(timeout=seconds)
        return json.loads(told)
    except subprocess.TimeoutExpired:
        process.kill()
        _, said = process.communicate()
    except ValueError:
        pass
    print(f"graph breaks are counted here: {said[-300:]}")  # noqa: T201 - for who reads it
    return list(counted(device))


def graph_breaks(run, process=None):
    """Record the breaks that a process counted, or that are counted here."""
    for name, part, number in found(process, run.device):
        run.count("graph_breaks", number, unit="breaks", subject=name, part=part)


if __name__ == "__main__":
    print(json.dumps(list(counted(torch.device("cuda")))))  # noqa: T201 - that is the answer
