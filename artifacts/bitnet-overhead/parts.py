"""How long the device works on a step, by what the kernels do: the products, and all that is around them."""

import json
import tempfile
from pathlib import Path

import torch
from shared.bitnet_cases import draw
from shared.bitnet_evidence import bound_step, kind_of
from shared.bitnet_variants import WAYS
from torch.profiler import ProfilerActivity, profile


def times(run, tokens, width, out):
    """Record the seconds in kernels of a step, products and rest, as the profiler saw them."""
    case = draw(tokens, width, out, run.seed, run.device)
    where = {"tokens": tokens, "width": width, "out": out}
    for name in ("linear", "naive", "functions"):
        found = kernels(bound_step(WAYS[name], name, case))
        for part, seconds in split(found).items():
            run.count("kernel_time", seconds, unit="s", subject=name, part=part, **where)


def split(found):
    """Return the seconds of products and of the rest, of (name, seconds) of each kernel."""
    parts = {"products": 0.0, "rest": 0.0}
    for name, seconds in found:
        parts["products" if kind_of(name) == "matmul" else "rest"] += seconds
    return parts


def kernels(call):
    """Return the name and the seconds of each kernel of `call()`, the second time it is made."""
    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        call()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text("utf-8"))["traceEvents"]
    return [(each["name"], each["dur"] * 1e-6) for each in events if each.get("cat") == "kernel"]
