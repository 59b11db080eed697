"""What a forward and a step are made of: operations, launches by kind, autograd nodes, bytes kept."""

from collections import Counter

import torch
from kernel import compiled_naive, compiled_quantisers, compiled_weight
from shared.bitnet_cases import draw
from shared.bitnet_evidence import (
    forward,
    kind_of,
    nodes,
    operations,
    peak_bytes,
    saved_bytes,
    step,
    usable,
)
from shared.bitnet_torchao import torchao_uses_triton
from shared.bitnet_variants import (
    ActivationFunction,
    WeightFunction,
    available,
    naive_activation,
    naive_weight,
    narrow_activation,
    narrow_weight,
)


def layers(run, tokens, width, out):
    """Count for every way, eager; and on a GPU for what torch.compile makes of two."""
    case = draw(tokens, width, out, run.seed, run.device)
    sizes = {"tokens": tokens, "width": width, "out": out}
    ways = usable(available(), case)
    for name, way in ways.items():
        count_layer(run, name, way, case, sizes)
    if run.on_gpu and "torchao" in ways:
        run.count("uses_triton", torchao_uses_triton(), unit="", subject="torchao")
    if not run.tiny:
        made = {
            "naive, compiled": compiled_naive(),
            "functions, compiled quantisers": compiled_quantisers(),
        }
        for name, way in usable(made, case).items():
            count_launches(run, name, way, case, sizes)


def count_layer(run, name, way, case, sizes):
    """Count one way: operations, nodes, bytes kept for the backward, and what a GPU shows."""
    for part, call in (("forward", forward), ("step", step)):
        found = len(operations(lambda call=call: call(way, name, *case)))
        run.count("operations", found, unit="operations", subject=name, part=part, **sizes)
    run.count("nodes", len(nodes(forward(way, name, *case))), unit="nodes", subject=name, **sizes)
    kept = saved_bytes(lambda: forward(way, name, *case), case)
    run.count("saved_bytes", kept, unit="B", subject=name, **sizes)
    if not run.tiny:
        peak = peak_bytes(lambda: step(way, name, *case))
        run.count("peak_bytes", peak, unit="B", subject=name, **sizes)
        count_launches(run, name, way, case, sizes)


def count_launches(run, name, way, case, sizes):
    """Count kernels, all of them and by kind; nothing where sizes are tiny."""
    for part, call in (("forward", forward), ("step", step)):
        found = run.launches(lambda call=call: call(way, name, *case))
        if found:
            run.count("launches", len(found), unit="launches", subject=name, part=part, **sizes)
        for kind, number in Counter(kind_of(each.name) for each in found).items():
            run.count("launches", number, unit="launches", subject=name, part=part, kind=kind)


def quantisers(run, rows, columns):
    """Count for a quantiser alone, and for the straight-through idiom alone."""
    weight = draw(1, columns, rows, run.seed, run.device)[1].requires_grad_()
    sizes = {"rows": rows, "columns": columns}
    alone = {
        "naive weight": naive_weight,
        "naive weight, no up-casts": narrow_weight,
        "weight Function": WeightFunction.apply,
        "naive activation": naive_activation,
        "naive activation, no up-casts": narrow_activation,
        "activation Function": ActivationFunction.apply,
    }
    for name, quantise in alone.items():
        found = len(operations(lambda each=quantise: each(weight)))
        run.count("operations", found, unit="operations", subject=name, **sizes)
        run.count("nodes", len(nodes(quantise(weight))), unit="nodes", subject=name, **sizes)
        kept = saved_bytes(lambda each=quantise: each(weight), [weight])
        run.count("saved_bytes", kept, unit="B", subject=name, **sizes)
    if not run.tiny:
        alone["naive weight, no up-casts, compiled"] = compiled_weight()
        for name, quantise in alone.items():
            found = len(run.launches(lambda each=quantise: each(weight)))
            run.count("launches", found, unit="launches", subject=name, **sizes)


def idiom(run):
    """Count what `x + (q - x).detach()` adds to a graph, whatever made q."""
    x = torch.randn(64, 64, device=run.device, requires_grad=True)
    q = x.detach().round()
    name = "straight-through idiom"

    def call():
        return x + (q - x).detach()

    run.count("nodes", len(nodes(call())), unit="nodes", subject=name)
    run.count("saved_bytes", saved_bytes(call, [x, q]), unit="B", subject=name)
