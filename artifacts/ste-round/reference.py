"""What a gradient should be: the straight-through one in float64, and the closed form of a cosine.

A rule that gives no gradient to weights beyond 1.5 scales keeps of an independent gradient the share of
the others, so that the cosine between the two is the root of that share::

    cosine = sqrt(P(|w| < 1.5 E|w|))
"""

import math

from shared.bitnet_reference import step

__all__ = ["closed_form", "step"]


def closed_form(distribution):
    """Return the cosine for weights of a distribution: uniform, normal, laplace or two-sized.

    Uniform on [-1, 1]: E|w| = 1/2, so 3/4 lie within. Normal: E|w| = sqrt(2 / pi). Laplace: E|w| is its
    width, so 1 - exp(-3/2) lie within. Two sizes, nine of ten weights 1 and one 4: E|w| = 1.3.
    """
    return math.sqrt(
        {
            "uniform": 0.75,
            "normal": math.erf(1.5 * math.sqrt(2 / math.pi) / math.sqrt(2)),
            "laplace": 1 - math.exp(-1.5),
            "two-sized": 0.9,
        }[distribution]
    )
