"""Errors, exactness, and the poison in fresh memory."""

import pytest
import torch

from warplog import measure
from warplog.measure import Wrong, error_of, floor_seconds, poisoned

NAN, INF = float("nan"), float("inf")


def error(out, ref, *, exact=False):
    return error_of((torch.tensor(out),), (torch.tensor(ref),), exact=exact)


ALLOCATIONS = {
    "empty": lambda: torch.empty(5),
    "empty_like": lambda: torch.empty_like(torch.ones(2, 3)),
    "empty_strided": lambda: torch.empty_strided((2, 2), (1, 2)),
    "new_empty": lambda: torch.ones(1).new_empty(4),
    "bfloat16": lambda: torch.empty(5, dtype=torch.bfloat16),
    "float16": lambda: torch.empty(5, dtype=torch.float16),
    "float8": lambda: torch.empty(5, dtype=torch.float8_e4m3fn).float(),
}


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_fresh_memory_is_nan_while_poisoned(name):
    with poisoned():
        made = ALLOCATIONS[name]()
    assert torch.isnan(made).all()


def test_fresh_integers_are_minus_one_and_fresh_nothing_is_nothing():
    with poisoned():
        assert torch.empty(3, dtype=torch.int32).tolist() == [-1, -1, -1]
        assert torch.empty(0).numel() == 0
        assert torch.empty(2, dtype=torch.bool).shape == (2,)


def test_the_error_is_relative_to_the_reference():
    assert error([2.0, 2.0], [1.0, 1.0]) == pytest.approx(1.0)
    assert error([1e-30, 1e-30], [1e-30, 1e-30]) == 0.0


def test_one_wrong_element_among_many_is_not_averaged_away():
    ref = torch.ones(1_000_000)
    out = ref.clone()
    out[123] = 0.0
    assert error_of((out,), (ref,), exact=False) == pytest.approx(1.0)


def test_large_tensors_are_compared_in_parts(monkeypatch):
    monkeypatch.setattr(measure, "CHUNK", 7)
    ref = torch.arange(1.0, 101.0)
    out = ref.clone()
    out[-1] += 10
    assert error_of((out,), (ref,), exact=False) == pytest.approx(0.1)


@pytest.mark.parametrize("out", [[NAN, 1.0], [INF, 1.0]])
def test_a_nan_or_infinity_that_the_reference_has_not_is_wrong(out):
    with pytest.raises(Wrong, match="NaN or infinite"):
        error(out, [1.0, 1.0])


def test_a_nan_or_infinity_of_the_reference_must_be_met():
    assert error([NAN, -INF, 1.0], [NAN, -INF, 1.0]) == 0.0
    for out in ([0.0, -INF, 1.0], [NAN, INF, 1.0], [NAN, 0.0, 1.0]):
        with pytest.raises(Wrong, match="not finite"):
            error(out, [NAN, -INF, 1.0])


def test_where_the_reference_is_zero_only_zero_is_right():
    assert error([0.0], [0.0]) == 0.0
    assert error([1e-9], [0.0]) == INF


def test_exact_means_the_same_bits():
    assert error([1.0, NAN], [1.0, NAN], exact=True) == 0.0
    with pytest.raises(Wrong, match="1 of 2 elements differ"):
        error([0.0, 1.0], [-0.0, 1.0], exact=True)
    with pytest.raises(Wrong, match="2 of 2 elements differ"):
        error([3, 4], [4, 3], exact=True)


def test_exact_wants_the_same_dtype_and_approximate_the_same_kind():
    ref = torch.ones(2, dtype=torch.float64)
    assert error_of((ref.bfloat16(),), (ref,), exact=False) == 0.0
    for out, exact in ((ref.float(), True), (ref.int(), False)):
        with pytest.raises(Wrong, match=r"not torch\.float64"):
            error_of((out,), (ref,), exact=exact)


@pytest.mark.parametrize(
    ("traffic", "l2", "bandwidth", "seconds"),
    [(None, 1, 1, 0), (10, 1, None, 0), (10, 20, 5, 0), (110, 10, 5, 20)],
)
def test_the_floor_counts_what_cannot_stay_in_the_cache(traffic, l2, bandwidth, seconds):
    assert floor_seconds(traffic, l2, bandwidth) == seconds


def test_whole_numbers_are_compared_exactly_even_without_exact():
    ranks = torch.arange(1000)
    with pytest.raises(Wrong, match="1000 of 1000 elements differ"):
        error_of((ranks + 1,), (ranks,), exact=False)
    with pytest.raises(Wrong, match="1 of 2 elements differ"):
        error([2**62 + 1, 0], [2**62, 0])
    with pytest.raises(Wrong, match="elements differ"):
        error([True, False], [True, True])


def test_the_imaginary_part_counts():
    assert error([1 + 1j], [1 + 1j]) == 0.0
    assert error([1 + 0j], [1 + 1j]) > 0.5
    with pytest.raises(Wrong, match=r"not torch\.complex64"):
        error([1.0], [1 + 1j])


def test_a_tuple_for_a_tensor_is_wrong():
    with pytest.raises(Wrong, match="returned int where a plain tensor belongs"):
        measure.as_tuple((torch.ones(1), 3))
