"""How far each way is from exact integer arithmetic, and how many codes its arithmetic changes."""

import torch
from reference import codes_of, layer, ternary_of
from shared.bitnet_cases import draw
from shared.bitnet_torchao import leaf_of
from shared.bitnet_variants import available, fused_norm, int8_range, ternary, with_norm

BANDS = ((0, 16), (16, 96), (96, 128))


def errors(run, tokens, width, out, *, samples):
    """Check every way's forward against exact products of codes, on weights as a layer has them."""

    def bound(name, way):
        if hasattr(way, "norm"):
            way = with_norm(way, fused_norm)  # the same normalised input for all
        return lambda x, weight, gain: way(x, leaf_of(name, weight), gain).detach()

    quantised = {name: way for name, way in available().items() if not name.startswith("linear")}
    run.compare(
        subjects={name: bound(name, way) for name, way in quantised.items()},
        reference=layer,
        inputs=lambda seed: draw(tokens, width, out, seed, run.device, weights="normal")[:3],
        tolerance=0.25,
        samples=samples,
        time=False,
        part="forward",
        tokens=tokens,
        width=width,
        out=out,
        weights="normal",
    )


def flips(run, tokens, width, out):
    """The share of codes that float32 and bfloat16 arithmetic give other than float64 does."""
    x, weight, gain, _ = draw(tokens, width, out, run.seed, run.device, weights="normal")
    x = fused_norm(x, gain)
    wide_codes, wide_ternary = codes_of(x)[0], ternary_of(weight)[0]
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        codes = int8_range(x.to(dtype))[0]
        for what, found, wanted in (
            ("activation", codes, wide_codes),
            ("weight", ternary(weight.to(dtype))[0], wide_ternary),
        ):
            share = float((found.double() != wanted).double().mean())
            run.count("flipped_codes", share, unit="fraction", subject=name, quantiser=what)
    scales_only(run, x, weight, wide_codes, wide_ternary)


def scales_only(run, x, weight, codes, ternary_codes):
    """Codes that flip where only the scale is rounded to bfloat16 and the rest is float64."""
    a = codes_of(x)[1].bfloat16().double()
    s = ternary_of(weight)[1].bfloat16().double()
    by_size(run, (x.double() * a).round().clamp(-128, 127), codes)
    for what, found, wanted in (
        ("activation", (x.double() * a).round().clamp(-128, 127), codes),
        ("weight", (weight.double() / s).round().clamp(-1, 1), ternary_codes),
    ):
        share = float((found != wanted).double().mean())
        run.count("flipped_codes", share, unit="fraction", subject="bfloat16 scale", quantiser=what)


def by_size(run, found, wanted):
    """By the size of an activation's code: the share that a factor in bfloat16 changes."""
    differs, size = found != wanted, wanted.abs()
    for low, high in BANDS:
        inside = (size >= low) & (size < high)
        share = float((differs & inside).sum() / inside.sum())
        where = {"codes": f"{low} to {high - 1}"}
        run.count("flipped_by_size", share, unit="fraction", subject="bfloat16 scale", **where)


def scales(run, count, number=64):
    """The share of the weight's codes that bfloat16 flips, over many scales: the mean and the largest.

    A weight of one scale says little: how far that scale is from its nearest bfloat16 decides it.
    """
    source = torch.Generator(run.device).manual_seed(run.seed)
    shares = {"bfloat16 scale": [], "bfloat16": []}
    for _ in range(number):
        spread = torch.rand((), generator=source, device=run.device) + 1
        weight = (torch.randn(count, generator=source, device=run.device) * spread).bfloat16()
        wanted, s = ternary_of(weight)
        rounded = (weight.double() / s.bfloat16().double()).round().clamp(-1, 1)
        for name, found in (("bfloat16 scale", rounded), ("bfloat16", ternary(weight)[0])):
            shares[name].append((found.double() != wanted).double().mean())
    for name, found in shares.items():
        for what, share in (("mean", sum(found) / number), ("largest", max(found))):
            run.count("flipped_weights", float(share), unit="fraction", subject=name, over=what)
