"""The definition of sparse attention against plain loops, its costs by hand, and what check refuses."""

import math

import numpy as np
import pytest
import torch
from shared import dsa
from shared.dsa import (
    CKV,
    HEADS,
    KPE,
    PAGE,
    check,
    problem,
    reference,
    traffic,
    work,
    wrong_elements,
)

PAGES = 3
ROWS = PAGES * PAGE
EDGES = {
    "none": [-1] * 8,
    "one": [5, *[-1] * 7],
    "all": [3, 190, 64, 7, 0, 100, 1, 63],
    "padding last": [9, 8, 7, -1, -1, -1, -1, -1],
    "padding first": [-1, -1, -1, -1, -1, 9, 8, 7],
    "padding between": [-1, 9, -1, -1, 8, 7, -1, 6],
    "a row twice": [9, 8, 9, 9, -1, -1, 8, 7],
    "one row only": [9] * 8,
    "the last row": [ROWS - 1, 0, ROWS - 1, -1, -1, -1, -1, -1],
}


def lists(*rows):
    return torch.tensor(rows, dtype=torch.int32)


def by_loops(given):
    """Attention of each token and head by itself, with numbers and no matrices."""
    q_nope, q_pe, ckv, kpe = (each.double().numpy() for each in given[:4])
    output = np.zeros((len(q_nope), HEADS, CKV))
    lse = np.full((len(q_nope), HEADS), -np.inf)
    for token, listed in enumerate(given.sparse_indices.tolist()):
        rows = [(row // PAGE, row % PAGE) for row in listed if row != -1]
        for head in range(HEADS if rows else 0):
            logits = [
                given.sm_scale
                * (
                    math.fsum(q_nope[token, head] * ckv[place])
                    + math.fsum(q_pe[token, head] * kpe[place])
                )
                for place in rows
            ]
            weights = [math.exp(logit - max(logits)) for logit in logits]
            total = math.fsum(weights)
            for weight, place in zip(weights, rows, strict=True):
                output[token, head] += weight / total * ckv[place]
            lse[token, head] = (max(logits) + math.log(total)) / math.log(2)
    return torch.from_numpy(output), torch.from_numpy(lse)


@pytest.mark.parametrize("edge", EDGES)
def test_the_reference_is_what_plain_loops_compute(edge):
    given = problem(lists(EDGES[edge]), seed=1, pages=PAGES)
    output, lse = reference(*given)
    expected, expected_lse = by_loops(given)
    assert output.dtype == lse.dtype == torch.float64
    assert torch.allclose(output, expected, rtol=0, atol=1e-12)
    assert torch.allclose(lse, expected_lse, rtol=0, atol=1e-12)


def test_tokens_do_not_see_each_other():
    """More tokens than are computed at once, the last part not full."""
    rows = torch.randint(-1, ROWS, (dsa._TOKENS_AT_ONCE + 3, 8), dtype=torch.int32)
    given = problem(rows, seed=2, pages=PAGES)
    output, lse = reference(*given)
    for token in (0, dsa._TOKENS_AT_ONCE - 1, dsa._TOKENS_AT_ONCE, len(rows) - 1):
        part = slice(token, token + 1)
        alone = dsa.Problem(
            given.q_nope[part], given.q_pe[part], *given[2:4], rows[part], given.sm_scale
        )
        one, sums = reference(*alone)
        assert torch.allclose(output[part], one, rtol=0, atol=1e-12)
        assert torch.allclose(lse[part], sums, rtol=0, atol=1e-12)


def test_a_token_without_a_row_gives_zero_and_minus_infinity():
    output, lse = reference(*problem(lists(EDGES["none"], EDGES["one"]), seed=3, pages=PAGES))
    assert not output[0].any()
    assert (lse[0] == -math.inf).all()
    assert output[1].any()
    assert lse[1].isfinite().all()


@pytest.mark.parametrize("edge", ["none", "one", "padding between"])
def test_a_row_that_is_not_listed_does_not_matter_whatever_it_holds(edge):
    """Not even row 0, which stands in for padding."""
    given = problem(lists(EDGES[edge]), seed=4, pages=PAGES)
    expected = reference(*given)
    listed = [row for row in EDGES[edge] if row >= 0]
    for cache in given[2:4]:
        flat = cache.flatten(0, 1)
        kept = flat[listed].clone()
        flat.fill_(math.nan)
        flat[listed] = kept
    for found, wanted in zip(reference(*given), expected, strict=True):
        assert torch.equal(found, wanted)


def test_a_list_of_no_places_has_no_row():
    output, lse = reference(*problem(torch.empty(1, 0, dtype=torch.int32), seed=5, pages=PAGES))
    assert not output.any()
    assert (lse == -math.inf).all()


def test_no_token_gives_empty_outputs():
    """The definition has no least size; that a kernel is not launched on nothing is for check."""
    output, lse = reference(*problem(torch.empty(0, 8, dtype=torch.int32), seed=5, pages=PAGES))
    assert (output.shape, lse.shape) == ((0, HEADS, CKV), (0, HEADS))
    assert output.dtype == lse.dtype == torch.float64


def test_large_logits_do_not_overflow():
    given = problem(lists(EDGES["all"]), seed=6, pages=PAGES)._replace(sm_scale=50.0)
    output, lse = reference(*given)
    assert output.isfinite().all()
    assert lse.isfinite().all()


def test_a_problem_is_bf16_of_the_public_shapes_and_repeats_by_seed():
    one, again, other = (problem(lists(EDGES["one"]), seed, pages=2) for seed in (7, 7, 8))
    shapes = [list(each.shape) for each in one[:4]]
    assert shapes == [[1, 16, 512], [1, 16, 64], [2, 64, 512], [2, 64, 64]]
    assert {each.dtype for each in one[:4]} == {torch.bfloat16}
    assert one.sm_scale == 0.1352337788608801
    for first, second, third in zip(one[:4], again[:4], other[:4], strict=True):
        assert torch.equal(first, second)
        assert not torch.equal(first, third)


@pytest.mark.parametrize(
    ("found", "expected", "wrong"),
    [
        (1.0, 1.0, 0),
        (1.009, 1.0, 0),
        (0.005, 0.0, 0),  # absolutely near
        (100.9, 100.0, 0),  # relatively near
        (101.1, 100.0, 1),
        (0.02, 0.0, 1),
        (math.nan, 0.0, 1),
        (math.nan, math.nan, 1),
        (math.inf, 1.0, 1),
        (-math.inf, -math.inf, 0),
        (3.0, -math.inf, 1),  # a token that has no row, and a kernel that says it has
        (math.inf, -math.inf, 1),
        (math.nan, -math.inf, 1),
    ],
)
def test_an_element_is_wrong_where_it_is_far_both_ways(found, expected, wrong):
    pair = torch.tensor([found, 0.0]), torch.tensor([expected, 0.0], dtype=torch.float64)
    assert wrong_elements(*pair) == wrong


def test_wrong_elements_are_counted_over_the_whole_tensor():
    expected = torch.zeros(2, 3, dtype=torch.float64)
    found = expected.to(torch.bfloat16)
    found[0, 1] = found[1, 2] = 1
    assert wrong_elements(found, expected) == 2


def test_the_traffic_of_a_call_by_hand():
    """Two tokens, 3 different rows of 1152 bytes, lists of 4 bytes a place, 18,432 bytes of queries
    and 16,384 of output and 64 of sums a token.
    """
    assert traffic(2, 3, width=8) == 3 * 1152 + 2 * (8 * 4 + 18_432 + 16_384 + 64)
    assert traffic(1, 2048) == 2048 * 1152 + 2048 * 4 + 18_432 + 16_384 + 64
    given = problem(lists([1, 2, 3, -1, -1, -1, -1, -1]), seed=1, pages=1)
    inputs = [given.q_nope, given.q_pe, given.sparse_indices]
    moved = sum(each.numel() * each.itemsize for each in inputs) + 2 * given.q_nope.numel() + 64
    assert traffic(1, 3, width=8) == 3 * 1152 + moved


def test_the_work_of_a_row_is_two_products():
    """16 heads: 576 multiply-adds for a logit, 512 for the output."""
    assert work(1) == 16 * 2 * (576 + 512) == 34_816
    assert work(0) == 0


def tensors(tokens=2, width=8, pages=PAGES):
    """What a kernel takes, by name, output and lse too."""
    given = problem(torch.zeros(tokens, width, dtype=torch.int32), seed=1, pages=pages)
    made = dict(zip(given._fields[:5], given[:5], strict=True))
    made["output"] = torch.zeros(tokens, HEADS, CKV, dtype=torch.bfloat16)
    made["lse"] = torch.zeros(tokens, HEADS)
    return made


def refused(found, **options):
    with pytest.raises(ValueError, match=r".") as caught:
        check(*found.values(), **options)
    return str(caught.value)


NAMES = list(tensors())


def test_what_is_right_is_taken():
    found = tensors()
    assert check(*found.values()) is None
    assert check(*list(found.values())[:5], width=8, indices=True) is None
    assert check(*list(found.values())[:6]) is None


@pytest.mark.parametrize("name", NAMES)
def test_another_dtype_is_refused(name):
    found = tensors()
    right = found[name].dtype
    found[name] = found[name].to(torch.int64 if name == "sparse_indices" else torch.float16)
    assert refused(found) == f"{name} is {found[name].dtype}: convert it to {right}"


@pytest.mark.parametrize("name", NAMES[1:])
def test_another_device_is_refused(name):
    found = tensors()
    found[name] = found[name].to("meta")
    assert refused(found) == f"{name} is on meta: move it to cpu, where q_nope is"


@pytest.mark.parametrize("name", NAMES)
def test_strides_are_refused(name):
    found = tensors()
    found[name] = found[name].repeat_interleave(2, dim=-1)[..., ::2]
    assert refused(found).startswith(f"{name} has strides ")
    assert refused(found).endswith(f"pass {name}.contiguous()")


@pytest.mark.parametrize("name", NAMES)
def test_an_address_that_16_does_not_divide_is_refused(name):
    found = tensors()
    old = found[name]
    memory = torch.zeros(old.numel() + 1, dtype=old.dtype)
    found[name] = memory[1:].view(old.shape)
    assert found[name].is_contiguous()
    message = f"{name} starts at an address that 16 does not divide: pass a copy of it"
    assert refused(found) == message


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("q_nope", (2, 8, CKV)),
        ("q_nope", (2, HEADS, 256)),
        ("q_pe", (2, 8, KPE)),
        ("q_pe", (1, HEADS, KPE)),
        ("ckv_cache", (PAGES, 32, CKV)),
        ("kpe_cache", (PAGES, 32, KPE)),
        ("kpe_cache", (PAGES - 1, PAGE, KPE)),
        ("ckv_cache", (PAGES * PAGE, CKV)),
        ("sparse_indices", (1, 8)),
        ("output", (2, HEADS, KPE)),
        ("lse", (2, 8)),
    ],
)
def test_another_shape_is_refused(name, shape):
    """Fewer heads, smaller pages, a flat cache, caches of different lengths."""
    found = tensors()
    found[name] = torch.zeros(shape, dtype=found[name].dtype)
    message = refused(found)
    assert " has shape " in message
    assert message.split(" ", 1)[0] in (name, "kpe_cache")


def test_a_width_that_the_kernel_does_not_take_is_refused():
    message = "sparse_indices has shape [2, 8]: it must be [2, 2048]"
    assert refused(tensors(), width=2048) == message


def test_no_token_is_refused():
    """So that no kernel is launched on a grid of nothing."""
    assert refused(tensors(tokens=0)) == "q_nope has no token: skip the call when T = 0"


@pytest.mark.parametrize("indices", [True, False])
def test_a_list_of_no_places_is_refused(indices):
    message = "sparse_indices lists 0 places: widen it, with -1 where there is no row"
    assert refused(tensors(width=0), indices=indices) == message


@pytest.mark.parametrize(
    "scale",
    ["0.1", None, True, 1j, torch.tensor(0.1), math.nan, math.inf, -math.inf, 10**400, 2.0**127],
    ids=str,
)
def test_a_scale_that_no_kernel_can_take_is_refused(scale):
    remedy = "pass a finite int or float below 2**127"
    assert refused(tensors(), sm_scale=scale) == f"sm_scale is {scale!r}: {remedy}"


@pytest.mark.parametrize("scale", [0, 1, -0.5, 1e30, np.float64(0.1)])
def test_a_scale_that_is_a_number_is_taken(scale):
    assert check(*tensors().values(), sm_scale=scale) is None


@pytest.mark.parametrize("row", [-2, ROWS, 2**31 - 1])
def test_an_index_out_of_range_is_refused_where_indices_are_looked_at(row):
    found = tensors()
    found["sparse_indices"][1, 3] = row
    expected = f"sparse_indices holds {row}: a row is 0 to {ROWS - 1}, and -1 is padding"
    assert refused(found, indices=True) == expected
    assert check(*found.values()) is None


@pytest.mark.parametrize("row", [-1, 0, ROWS - 1])
def test_the_first_and_the_last_row_and_padding_are_in_range(row):
    found = tensors()
    found["sparse_indices"][0, 0] = row
    assert check(*found.values(), indices=True) is None


def test_neither_the_reference_nor_check_writes():
    given = problem(lists(*EDGES.values()), seed=1, pages=PAGES)
    before = [each.clone() for each in given[:5]]
    reference(*given)
    check(*given[:5], indices=True)
    assert all(torch.equal(*pair) for pair in zip(before, given[:5], strict=True))
