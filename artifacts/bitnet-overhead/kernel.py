"""What the report changed: the quantisers, each an autograd Function and each compiled.

The ways themselves are in `shared/bitnet_variants.py`; here are those that torch.compile makes of them.
"""

# ruff: noqa: PLW0108 - dynamo traces a function of ours; what is torch's own it leaves alone
from functools import cache

from shared.bitnet_evidence import compiled
from shared.bitnet_variants import (
    FUNCTIONS,
    NAIVE,
    ActivationFunction,
    Way,
    WeightFunction,
    narrow_weight,
)


# region: quantisers
@cache
def compiled_quantisers():
    """Return the report's layer: both Functions compiled, the norm and the product not.

    The weight is compiled for each of its sizes, since its mean is best split by one that is known; the
    activation once, for rows of any number and length.
    """
    of_weight = compiled(lambda w: WeightFunction.apply(w), dynamic=False)
    of_rows = compiled(lambda x: ActivationFunction.apply(x), dynamic=True)
    return Way(FUNCTIONS.norm, of_rows, of_weight)


# endregion


@cache
def compiled_naive():
    """Return the naive layer compiled whole, for one set of sizes."""
    return compiled(lambda x, weight, gain: NAIVE(x, weight, gain), dynamic=False)


@cache
def compiled_weight():
    """Return the naive weight quantiser, without up-casts, compiled."""
    return compiled(lambda w: narrow_weight(w), dynamic=False)
