"""What gradient a weight gets by its size in scales, and how far two rules point apart."""

import torch
from reference import closed_form
from reference import step as exact_step
from shared.bitnet_cases import draw
from shared.bitnet_evidence import step
from shared.bitnet_variants import WeightFunction, available, detached_weight, round_weight, ternary

POINTS = (0.4, 0.9, 1.4, 1.6, 2.6)
DISTRIBUTIONS = ("uniform", "normal", "laplace", "two-sized")


# region: points
def at_points(run, tokens, width, out):
    """The weight's gradient by that of the straight-through rule, at five sizes of the weight.

    A column of the weight is set to each size times the scale, the rest is stretched so that the scale
    stays. The number is the projection of the column's gradient on the exact one: 1 is the identity.
    """
    x, weight, gain, gradient = draw(tokens, width, out, run.seed, run.device, weights="normal")
    weight = planted(weight.float()).to(weight.dtype)
    case = x, weight, gain, gradient
    exact = exact_step(*case)[2]
    for name, way in available().items():
        if name.startswith("linear") or name == "naive, no up-casts":
            continue
        found = step(way, name, *case)[2].double()
        for column, point in enumerate(POINTS):
            share = (found[:, column] @ exact[:, column]) / exact[:, column].square().sum()
            run.count("gradient_share", float(share), unit="ratio", subject=name, scales=point)


def planted(weight):
    """Return the weight with a column of each size in scales, the scale being as before."""
    s = weight.abs().mean()
    rest = weight[:, len(POINTS) :]
    wanted = s * weight.numel() - weight.shape[0] * sum(POINTS) * s
    signs = weight[:, : len(POINTS)].sign()
    points = signs * torch.tensor(POINTS, device=weight.device) * s
    return torch.cat([points, rest * (wanted / rest.abs().sum())], dim=1)


# endregion


def drawn(distribution, count, source, device):
    """Draw weights of a distribution."""
    even = torch.rand(count, generator=source, device=device) * 2 - 1
    return {
        "uniform": lambda: even,
        "normal": lambda: torch.randn(count, generator=source, device=device),
        "laplace": lambda: -even.sign() * torch.log1p(-even.abs().clamp(max=1 - 2**-24)),
        "two-sized": lambda: (
            even.sign()
            * torch.where(torch.rand(count, generator=source, device=device) < 0.1, 4.0, 1.0)
        ),
    }[distribution]()


def of_weight(quantise, weight, gradient):
    """Return the gradient that a quantiser passes to its weight."""
    leaf = weight.detach().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(quantise(leaf), leaf, gradient)[0].double()


def cosine(one, two):
    """Return the cosine between two tensors."""
    return float((one * two).sum() / (one.norm() * two.norm()))


def cosines(run, count):
    """The cosine between the round-only gradient and the identity's, for weights of four distributions."""
    source = torch.Generator(run.device).manual_seed(run.seed)
    for distribution in DISTRIBUTIONS:
        weight = drawn(distribution, count, source, run.device)
        gradient = torch.randn(count, generator=source, device=run.device)
        identity = of_weight(WeightFunction.apply, weight, gradient)
        where = {"weights": distribution}
        for name, quantise in (
            ("round only", round_weight),
            ("round only, scales detached", detached_weight),
        ):
            found = cosine(of_weight(quantise, weight, gradient), identity)
            run.count("gradient_cosine", found, unit="", subject=name, **where)
            off = abs(found - closed_form(distribution))
            run.count("off_closed_form", off, unit="", subject=name, **where)
        beyond = weight.abs() > 1.5 * ternary(weight)[1]
        run.count(
            "saturated", float(beyond.double().mean()), unit="fraction", subject="weights", **where
        )
