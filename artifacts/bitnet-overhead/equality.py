"""When the naive idiom and a Function have the same bits, and what makes them part.

`w + (w_q - w)` need not be w_q in floating point. Where the subtraction is exact the sum is too; it is
not where |w| is so much larger than the scale that the difference lies in a higher binade.
"""

# ruff: noqa: N812 - F is torch's custom
import torch
import torch.nn.functional as F
from shared.bitnet_cases import draw
from shared.bitnet_variants import (
    EXACT,
    FUNCTIONS,
    NAIVE,
    NARROW,
    BitLinear,
    WeightFunction,
    narrow_weight,
    separate_norm,
    ternary,
    with_norm,
)
from torch import nn

SIZES = ((0.0, 1.5), (1.5, 2.0), (2.0, 3.0), (3.0, 6.0))
DRAWS = 17
EPOCHS, BATCHES, BATCH, WIDTH, HIDDEN = 50, 4, 64, 16, 32
STEPS = EPOCHS * BATCHES
OTHER = with_norm(FUNCTIONS, separate_norm)
"""The Functions after the naive layer's own norm: nothing but the quantisers differs."""


def forwards(run, tokens, width, out):
    """Count outputs whose bits differ between the naive way and the Functions, by weights and dtype."""
    for weights in ("uniform", "normal"):
        for dtype in (torch.float32, torch.bfloat16):
            x, weight, gain, _ = draw(
                tokens, width, out, run.seed, run.device, dtype=dtype, weights=weights
            )
            expected = OTHER(x, weight, gain)
            where = {"weights": weights, "dtype": str(dtype).removeprefix("torch.")}
            for name, way in (
                ("naive", NAIVE),
                ("naive, exact sum", EXACT),
                ("naive, no up-casts", NARROW),
            ):
                found = way(x, weight, gain)
                differs = int((found != expected).sum())
                run.count("differing_outputs", differs, unit="elements", subject=name, **where)
                worst = float((found - expected).abs().max())
                run.count("largest_difference", worst, unit="", subject=name, **where)


def draws(run, tokens, width, out):
    """Count, of DRAWS draws in float32, those in which the naive way and the Functions differ in a bit.

    One draw says little: whether the idiom loses anything depends on the last bits of one scale.
    """
    for weights in ("uniform", "normal"):
        differing = 0
        for number in range(DRAWS):
            seed = run.seed * DRAWS + number
            given = draw(
                tokens, width, out, seed, run.device, dtype=torch.float32, weights=weights
            )[:3]
            differing += not torch.equal(NAIVE(*given), OTHER(*given))
        run.count("differing_draws", differing, unit="draws", subject="naive", weights=weights)


# region: binades
def weights_apart(run, count, scales=64):
    """By |w| in scales: the share of weights that the idiom does not give back as their codes.

    Over many scales, since it depends on the last bits of one whether anything is lost.
    """
    source = torch.Generator(run.device).manual_seed(run.seed)
    apart = torch.zeros(len(SIZES), dtype=torch.float64, device=run.device)
    number = torch.zeros_like(apart)
    for _ in range(scales):
        spread = torch.rand((), generator=source, device=run.device) + 1
        weight = torch.randn(count, generator=source, device=run.device) * spread
        size = weight.abs() / ternary(weight)[1]
        differs = narrow_weight(weight) != WeightFunction.apply(weight)
        for place, (low, high) in enumerate(SIZES):
            inside = (size >= low) & (size < high)
            number[place] += inside.sum()
            apart[place] += (inside & differs).sum()
    for (low, high), share in zip(SIZES, (apart / number).tolist(), strict=True):
        where = {"scales": f"{low:g} to {high:g}"}
        run.count("differing_weights", share, unit="fraction", subject="naive, float32", **where)


# endregion


def net(way, seed):
    """Return two layers with a ReLU between them, in float32 on the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(BitLinear(way, WIDTH, HIDDEN), nn.ReLU(), BitLinear(way, HIDDEN, 1))


def train(way, seed):
    """Train on a smooth function of 16 numbers; return each step's loss, and the first step in which the
    idiom's weight is not its codes times the scale, in any layer.
    """
    source = torch.Generator().manual_seed(seed)
    x = torch.randn(BATCHES, BATCH, WIDTH, generator=source)
    y = torch.sin(x[..., :4].sum(-1, keepdim=True)) + x[..., 4:5]
    model = net(way, seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses, apart = [], STEPS
    for step in range(STEPS):
        if apart == STEPS and any(is_apart(model[place].weight) for place in (0, 2)):
            apart = step
        loss = F.mse_loss(model(x[step % BATCHES]), y[step % BATCHES])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses, apart


@torch.no_grad()
def is_apart(weight):
    """Return whether the idiom changes a bit of a weight that a Function would not."""
    return not torch.equal(narrow_weight(weight), WeightFunction.apply(weight))


def equal_steps(one, two):
    """Return how many steps from the first on have the same loss, bit for bit."""
    pairs = enumerate(zip(one, two, strict=True))
    return next((step for step, pair in pairs if pair[0] != pair[1]), len(one))


def drift(run):
    """Train the same net with the same numbers in three ways, on the CPU, and see when they part."""
    functions, _ = train(OTHER, run.seed)
    where = {"epochs": EPOCHS, "place": "cpu"}
    for name, way in (("naive", NAIVE), ("naive, exact sum", EXACT)):
        losses, apart = train(way, run.seed)
        same = equal_steps(losses, functions)
        run.count("equal_epochs", same // BATCHES, unit="epochs", subject=name, **where)
        ratio = sum(losses[-BATCHES:]) / sum(functions[-BATCHES:])
        run.count("last_loss_ratio", ratio, unit="ratio", subject=name, **where)
        record_curve(run, name, losses)
        if name == "naive":
            run.count("steps_after_cause", same - apart, unit="steps", subject=name, **where)
    record_curve(run, "functions", functions)


def record_curve(run, name, losses):
    """Record every second epoch's loss."""
    for epoch in range(0, EPOCHS, 2):
        mean = sum(losses[epoch * BATCHES : (epoch + 1) * BATCHES]) / BATCHES
        run.count("loss", mean, unit="", subject=name, step=epoch + 1, task="regression")
