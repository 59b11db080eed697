"""The ways to attend to a list: as it is given, sorted before, sorted in the call, in a graph.

Each takes queries, caches, the list in three orders (as given; sorted, so that -1 comes first; sorted
with -1 last) and the scale, so that all subjects of a comparison get the same inputs.
"""

from collections.abc import Callable
from functools import partial

import torch
from captured import Captured
from kernel import attend_to_last_row
from shared.dsa import Problem, problem, reference
from shared.dsa_lists import Lists, sorted_pads_first, sorted_pads_last
from shared.splitk import Plan, splitk
from torch import Tensor

GIVEN, FIRST, LAST = range(3)
OFF_AT_MOST = 1e-2
Attend = Callable[..., tuple[Tensor, Tensor]]


def inputs_of(lists: Lists, seed: int, pages: int) -> tuple:
    """Draw a problem, and put its list down in all three orders."""
    drawn = problem(lists.indices, seed, pages)
    orders = (lists, sorted_pads_first(lists), sorted_pads_last(lists))
    return (*drawn[:4], *(order.indices for order in orders), drawn.sm_scale)


def in_order(order: int, attend: Attend, *inputs) -> tuple[Tensor, Tensor]:
    """Attend to the list that stands in `order` among the inputs."""
    *tensors, scale = inputs
    return attend(*Problem(*tensors[:4], tensors[4 + order], scale))


def expected(*inputs) -> tuple[Tensor, Tensor]:
    """Return the float64 answer, which knows no order."""
    return in_order(GIVEN, reference, *inputs)


# region: sorted in the call
def sorted_in_the_call(attend: Attend, *inputs) -> tuple[Tensor, Tensor]:
    """Sort the list that is given, padding first, and attend to it."""
    *tensors, scale = inputs
    lists = torch.sort(tensors[4 + GIVEN], dim=1).values
    return attend(*Problem(*tensors[:4], lists, scale))


# endregion


def subjects_of(plan: Plan, *, padded: bool, graphs: bool) -> dict[str, Callable]:
    """Return the ways by name; those that tell paddings apart only for lists that are `padded`."""
    attend, short = partial(splitk, plan=plan), partial(attend_to_last_row, plan=plan)
    found = {
        "as given": partial(in_order, GIVEN, attend),
        "sorted": partial(in_order, FIRST, attend),
        "sorted in the call": partial(sorted_in_the_call, attend),
    }
    if padded:
        found |= {
            "sorted, padding last": partial(in_order, LAST, attend),
            "as given, to the last row": partial(in_order, GIVEN, short),
            "sorted, to the last row": partial(in_order, FIRST, short),
            "sorted, padding last, to the last row": partial(in_order, LAST, short),
        }
    if graphs:
        found |= {
            "as given, in a graph": Captured(found["as given"]),
            "sorted in the graph": Captured(found["sorted in the call"]),
        }
    return found


def wrong_tokens(output: Tensor, answer: Tensor) -> int:
    """Count the tokens whose output is off by more than a hundredth of its length, or NaN."""
    gap = (output.double() - answer).flatten(1).norm(dim=1) / answer.flatten(1).norm(dim=1)
    return int((~(gap <= OFF_AT_MOST)).sum())


def imbalance(indices: Tensor, splits: int) -> float:
    """Return the rows of a list's fullest split over those of an equal share: the mean of all lists."""
    shares = (indices >= 0).view(len(indices), splits, -1).sum(dim=2).double()
    rows = shares.sum(dim=1)
    some = rows > 0
    return float((shares.amax(dim=1)[some] * splits / rows[some]).mean()) if some.any() else 1.0
