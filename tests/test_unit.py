"""Numbers as people read them."""

import pytest

from warplog.record import Interval
from warplog.unit import pretty, pretty_interval


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (3.31e-05, "s", "33.1 µs"),
        (9.999e-4, "s", "1.00 ms"),
        (9.996e-6, "s", "10.0 µs"),
        (999.9e9, "B/s", "1.00 TB/s"),
        (83.1, "s", "83.1 s"),
        (1234.5, "s", "1234 s"),
        (0, "s", "0 s"),
        (4.1e12, "B/s", "4.10 TB/s"),
        (9.9e14, "op/s", "990 TOP/s"),
        (12.4, "ratio", "12.4×"),
        (0.853, "fraction", "85.3 %"),
        (0, "rows", "0 rows"),
        (12_345, "rows", "12\u202f345 rows"),
        (7, "", "7"),
        (-2.5, "rows", "-2.50 rows"),
    ],
)
def test_a_number_is_written_with_three_digits_and_the_nearest_prefix(value, unit, words):
    assert pretty(value, unit) == words


def test_both_ends_of_an_interval_share_the_prefix_of_the_larger():
    assert pretty_interval(Interval(9.0e-4, 1.1e-3), "s") == "0.900–1.10 ms"


def test_an_interval_that_looks_like_one_number_is_written_as_one():
    assert pretty_interval(Interval(33.11e-6, 33.12e-6), "s") == "33.1 µs"
    assert pretty_interval(Interval(0, 0), "rows") == "0 rows"
