"""Inputs of a layer: x [T, K], W [N, K], the norm's gain [K], the gradient of y [T, N]."""

import torch

JITTER = 0.15


def draw(tokens, width, out, seed, device, *, dtype=torch.bfloat16, weights="jitter"):
    """Draw x, weight, gain and gradient.

    `jitter`: weights of both signs whose sizes differ by a seventh, so that none is rounded far: there
    `nn.Linear` and all rules of gradient have nearly the same answer, and one reference checks them all.
    `normal` and `uniform` are what layers start from; uniform is what nn.Linear draws.
    """
    source = torch.Generator(device).manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=source, device=device)

    def uniform(*shape):
        return torch.rand(shape, generator=source, device=device) * 2 - 1

    scale = width**-0.5
    weight = {
        "jitter": lambda: normal(out, width).sign() * (1 + JITTER * uniform(out, width)),
        "normal": lambda: normal(out, width),
        "uniform": lambda: uniform(out, width),
    }[weights]()
    case = (
        normal(tokens, width),
        weight * scale,
        torch.ones(width, device=device),
        normal(tokens, out),
    )
    return tuple(each.to(dtype) for each in case)
