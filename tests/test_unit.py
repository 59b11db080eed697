"""Numbers as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplog.record import Interval
from warplog.unit import prefixed, pretty, pretty_interval


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (3.31e-05, "s", "33.1 µs"),
        (9.999e-4, "s", "1.00 ms"),
        (9.996e-6, "s", "10.0 µs"),
        (999.9e9, "B/s", "1.00 TB/s"),
        (83.1, "s", "83.1 s"),
        (1234.5, "s", "1230 s"),
        (0, "s", "0 s"),
        (4.1e12, "B/s", "4.10 TB/s"),
        (9.9e14, "op/s", "990 TOP/s"),
        (12.4, "ratio", "12.4×"),
        (0.853, "fraction", "85.3 %"),
        (1e-6, "fraction", "1e-6"),
        (1.234e-7, "fraction", "1.23e-7"),
        (-2e-5, "fraction", "-2e-5"),
        (9.999e-8, "fraction", "1e-7"),
        (1e-4, "fraction", "0.0100 %"),
        (0, "fraction", "0 %"),
        (0, "rows", "0 rows"),
        (12_345, "rows", "12\u202f345 rows"),
        (7, "", "7"),
        (0.2424, "count", "0.242"),
        (1, "count", "1"),
        (12_345, "count", "12\u202f345"),
        (-2.5, "rows", "-2.50 rows"),
    ],
)
def test_a_number_is_written_with_three_digits_and_the_nearest_prefix(value, unit, words):
    assert pretty(value, unit) == words


def test_both_ends_of_an_interval_share_the_prefix_of_the_larger():
    assert pretty_interval(Interval(9.0e-4, 1.1e-3), "s") == "0.900–1.10 ms"


def test_an_interval_of_small_fractions_is_one_of_plain_numbers():
    assert pretty_interval(Interval(0, 1.5e-7), "fraction") == "0\u20131.50e-7"
    assert pretty_interval(Interval(1e-6, 1e-6), "fraction") == "1e-6"
    assert pretty_interval(Interval(1e-6, 0.5), "fraction").endswith(" %")


def test_an_interval_from_below_zero_has_a_word_between_its_ends():
    assert pretty_interval(Interval(-5, -3), "degrees") == "-5 to -3 degrees"
    assert pretty_interval(Interval(-5, 3), "degrees") == "-5 to 3 degrees"


def test_an_interval_that_looks_like_one_number_is_written_as_one():
    assert pretty_interval(Interval(33.11e-6, 33.12e-6), "s") == "33.1 µs"
    assert pretty_interval(Interval(0, 0), "rows") == "0 rows"
    assert pretty_interval(Interval(0.24, 0.24), "count") == "0.240"


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (12_346, "ratio", "12\u202f300×"),
        (1234, "ratio", "1230×"),
        (12_345.6, "s", "12\u202f300 s"),
        (123_457, "rows", "123\u202f457 rows"),
        (9_999, "rows", "9999 rows"),
        (123_456.5, "rows", "123\u202f000 rows"),
        (1e7, "", "10\u202f000\u202f000"),
        (1e21, "B", "1 ZB"),
        (1e300, "B", "1.00e+300 B"),
        (9.996e32, "B", "1.00e+33 B"),
        (1e-264, "s", "1.00e-264 s"),
        (5e-324, "s", "4.94e-324 s"),
        (9.996e-19, "s", "1.00 as"),
        (1e40, "s", "1.00e+40 s"),
    ],
)
def test_only_whole_counts_have_more_than_three_digits(value, unit, words):
    assert pretty(value, unit) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.9994, "99.9 %"),
        (0.9996, "99.96 %"),
        (0.99999, "99.999 %"),
        (1.00001, "100.001 %"),
        (1 - 2**-53, "99.99999999999999 %"),
        (1.0, "100 %"),
        (0.0, "0 %"),
        (1e-12, "1e-12"),
        (12, "1200 %"),
    ],
)
def test_only_one_is_all_and_only_zero_is_nothing(value, words):
    """So that no claim reads: refuted, 100 %, at least 100 %."""
    assert pretty(value, "fraction") == words
    assert pretty_interval(Interval(value, value), "fraction") == words


@given(st.floats(-1e300, 1e300), st.sampled_from(["s", "B", "ratio", "fraction", "rows", ""]))
def test_every_number_can_be_written(value, unit):
    words = pretty(value, unit)
    assert (float(words.split(" ")[0].rstrip("×").replace("\u202f", "")) == 0) == (value == 0)


@pytest.mark.parametrize(
    ("many", "one"),
    [
        ("kernels", "kernel"),
        ("mismatches", "mismatch"),
        ("classes", "class"),
        ("entries", "entry"),
        ("bytes", "byte"),
        ("warp instructions", "warp instruction"),
        ("SMs", "SM"),
        ("indices", "index"),
        ("ns", "ns"),
        ("status", "status"),
        ("rows/s", "row/s"),
        ("lists a row", "list a row"),
        ("loads of pages", "load of pages"),
        ("ns/row", "ns/row"),
        ("s", "s"),
        ("B", "B"),
    ],
)
def test_one_of_a_kind_is_singular(many, one):
    assert pretty(1, many) == f"1 {one}"
    assert pretty(0, many) == f"0 {many}"
    assert pretty_interval(Interval(0, 1), many).endswith(many)


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("sector", "sectors"),
        ("cycle", "cycles"),
        ("register/thread", "registers/thread"),
        ("rows", "rows"),
        ("%", "%"),
        ("dB", "dB"),
        ("", ""),
    ],
)
def test_what_nsight_compute_names_in_the_singular_is_plural_unless_it_is_one(one, many):
    """A unit that is no noun of its keeps its form."""
    assert pretty(0, one).removeprefix("0").strip() == many
    assert pretty(12.5, one).removeprefix("12.5").strip() == many
    assert pretty_interval(Interval(0, 1), one).endswith(many)
    assert prefixed(one, 12.5)[1] == many
    if one != "rows":
        assert pretty(1, one).removeprefix("1").strip() == one


def test_ends_that_are_shown_alike_are_shown_once():
    assert pretty_interval(Interval(15, 15.04), "ratio") == "15.0×"
    assert pretty_interval(Interval(14.96, 15), "ratio") == "15.0×"
    assert pretty_interval(Interval(9, 9), "items") == "9 items"
    assert pretty_interval(Interval(9.5, 10), "ratio") == "9.50–10×"
