"""Where marks and words stand in a chart: domains, ticks, labels pushed apart, text that fits its room."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from warplog.axis import amount, number, size_words, value_axis, words_of
from warplog.ink import style_of
from warplog.lettering import clean, isolated, shortened, width_of, wrapped
from warplog.scale import (
    Domain,
    apart,
    exact_domain,
    linear_domain,
    log_domain,
    roundest,
    roundness,
    thinned,
)

positive = st.floats(1e-12, 1e12)
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


def inside(domain, *values):
    """Every value and every tick is where it can be seen."""
    placed = domain.placed(0, 100)
    return all(-1e-6 <= placed(value) <= 100 + 1e-6 for value in (*values, *domain.ticks))


# Domains


@given(positive, positive)
def test_a_logarithmic_domain_holds_its_values_and_its_ticks(one, two):
    low, high = sorted((one, two))
    domain = log_domain(low, high)
    assert inside(domain, low, high)
    assert 2 <= len(domain.ticks) <= 8
    assert list(domain.ticks) == sorted(set(domain.ticks))


@given(positive)
def test_noise_does_not_fill_a_logarithmic_chart(value):
    domain = log_domain(value, value * 1.01)
    assert domain.high / domain.low >= 2 * (1 - 1e-9)


@pytest.mark.parametrize(("low", "high"), [(1e-300, 1e300), (1e-300, 1e-300), (1e300, 1e300)])
def test_a_logarithmic_domain_holds_the_smallest_and_the_largest_number(low, high):
    domain = log_domain(low, high)
    assert inside(domain, low, high)
    assert domain.ticks


def test_a_decade_has_ticks_at_one_two_and_five():
    assert log_domain(20e-6, 1000e-6).ticks == (2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3)


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.booleans())
@example(one=0.0, two=5e-324, zero=True)
@example(one=1e300, two=1e300, zero=True)
@example(one=-1e300, two=1e300, zero=False)
def test_a_linear_domain_holds_its_values_and_its_ticks(one, two, zero):
    low, high = sorted((one, two))
    domain = linear_domain(low, high, zero=zero)
    assert inside(domain, low, high)
    assert 2 <= len(domain.ticks) <= 8


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_domain_from_zero_begins_there(one, two):
    domain = linear_domain(min(one, two), max(one, two), zero=True)
    assert domain.low == domain.ticks[0] == 0


def test_whole_ticks_are_whole():
    assert linear_domain(0, 1, zero=True, whole=True).ticks == (0, 1)


def test_an_exact_domain_ends_where_its_values_do():
    domain = exact_domain(0, 950)
    assert (domain.low, domain.high) == (0, 950)
    assert domain.ticks == (0, 200, 400, 600, 800)


def test_a_domain_of_one_value_has_a_middle():
    assert Domain(3, 3, (3,), log=True).placed(0, 100)(3) == 50


# Labels


@given(st.lists(st.tuples(st.floats(-50, 400), st.sampled_from([15.0, 27.5])), max_size=12))
def test_labels_are_pushed_apart_and_keep_their_order(labels):
    wanted, heights = [place for place, _ in labels], [height for _, height in labels]
    high = max(290, 10 + sum(heights))
    placed = apart(wanted, heights, 10, high)
    ordered = sorted(range(len(labels)), key=lambda index: wanted[index])
    for one, two in pairwise(ordered):
        gap = placed[two] - heights[two] / 2 - (placed[one] + heights[one] / 2)
        assert gap >= -1e-6
    for index in ordered:
        assert placed[index] - heights[index] / 2 >= 10 - 1e-6
        assert placed[index] + heights[index] / 2 <= high + 1e-6


def test_labels_that_do_not_touch_stay_beside_their_lines():
    assert apart([50, 100, 20], [10, 10, 10], 0, 200) == [50, 100, 20]


def test_labels_that_touch_stay_around_their_lines():
    assert apart([100, 100], [10, 10], 0, 200) == [95, 105]


@given(st.lists(st.tuples(st.floats(0, 600), st.floats(5, 60)), max_size=20))
def test_labels_that_are_kept_never_touch(labels):
    labels.sort()
    positions, widths = [place for place, _ in labels], [width for _, width in labels]
    for kept in (thinned(positions, widths), roundest(positions, widths, positions)):
        assert kept[-1:] == list(range(len(labels)))[-1:]
        for one, two in pairwise(kept):
            assert positions[one] + widths[one] / 2 < positions[two] - widths[two] / 2


def test_labels_at_even_distances_are_left_out_evenly():
    assert thinned([0, 20, 40, 60, 80, 100, 120], [20] * 7) == [0, 2, 4, 6]


def test_of_two_sizes_the_rounder_has_the_label():
    positions = [0, 50, 51, 100]
    assert roundest(positions, [10] * 4, [1, 4096, 4097, 9000]) == [0, 1, 3]


@pytest.mark.parametrize(
    ("value", "expected"), [(4096, 2), (3000, 2), (0, 1), (1152, 1), (4097, 0), (0.5, 0), (-4, 0)]
)
def test_how_round_a_size_is(value, expected):
    assert roundness(value) == expected


# Words along an axis


@pytest.mark.parametrize(
    ("ticks", "unit", "words", "title"),
    [
        ((2e-5, 2e-4, 2e-3), "s", ("20", "200", "2000"), "it, µs"),
        ((5e11, 1e12, 4e12), "B/s", ("0.5", "1", "4"), "it, TB/s"),
        ((1e-6, 1e-3, 1.0), "s", ("1 µs", "1 ms", "1 s"), "it"),
        ((0.5, 1.0, 20.0), "ratio", ("0.5×", "1×", "20×"), "it"),
        ((0.0, 0.25), "fraction", ("0", "25"), "it, %"),
        ((0.0, 1e-4, 2e-4), "fraction", ("0", "0.01", "0.02"), "it, %"),
        ((0.0, 5e-5, 1e-4), "fraction", ("0", "5e-5", "0.0001"), "it"),
        ((1e-6, 1e-3, 1.0), "fraction", ("1e-6", "0.001", "1"), "it"),
        ((-2e-6, 0.0, 2e-6), "fraction", ("-2e-6", "0", "2e-6"), "it"),
        ((0.0, 20_000.0), "rows", ("0", "20k"), "it, rows"),
        ((2.0, 3.0), "", ("2", "3"), "it"),
        ((0.0,), "s", ("0",), "it, s"),
        ((1e-250, 2e-250), "s", ("1e-250", "2e-250"), "it, s"),
        ((1e250, 2e250), "B", ("1e250", "2e250"), "it, B"),
    ],
)
def test_ticks_are_short_and_the_unit_is_said_once(ticks, unit, words, title):
    axis = value_axis(Domain(ticks[0], ticks[-1], ticks, log=False), unit, "it")
    assert (axis.words, axis.title) == (words, title)


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.0, "0"), (0.5, "0.5"), (2000.0, "2000"), (1e7, "10M"), (1e-5, "1e-5"), (1e20, "1e20")],
)
def test_a_round_number_is_as_short_as_it_can_be(value, written):
    assert number(value) == written


@pytest.mark.parametrize(
    ("sizes", "written"),
    [
        ([32.0, 1024.0, 16384.0], ["32", "1Ki", "16Ki"]),
        ([2**20, 3.0 * 2**20], ["1Mi", "3Mi"]),
        ([500.0, 3000.0, 20_000.0], ["500", "3000", "20k"]),
        ([4096.0, 4097.0, 16384.0], ["4096", "4097", "16\u202f384"]),
        ([1.0, 0.25], ["1", "0.25"]),
    ],
)
def test_sizes_are_written_in_ki_or_in_k_where_all_of_them_are(sizes, written):
    assert size_words(sizes) == written


def test_a_number_beside_its_bar_leaves_out_the_unit_that_the_axis_says():
    axis = value_axis(Domain(0, 4e12, (0, 2e12, 4e12), log=False), "B/s", "bandwidth")
    assert amount(4.589e12, "B/s", axis) == "4.59"


def test_a_ratio_beside_its_row_keeps_its_sign():
    axis = value_axis(Domain(1, 20, (1, 2), log=True), "ratio", "speedup")
    assert amount(12.34, "ratio", axis) == "12.3×"


def test_names_are_words_and_what_is_no_plain_name_stays_as_it_is():
    assert words_of("row_bytes") == "row bytes"
    assert words_of("dram__bytes_read.sum") == "dram__bytes_read.sum"


# Text


@given(any_text, st.floats(20, 300))
@example("\u0301" * 500, 20.0)
@example("\ufdfd" * 9, 100.0)
def test_shortened_text_fits_its_room(text, room):
    assert width_of(shortened(text, room)) <= room + 1e-6


@given(any_text, st.floats(60, 300))
@example("one two three four five six seven", 60.0)
def test_wrapped_text_takes_two_lines_at_most_and_each_fits(text, room):
    lines = wrapped(text, room)
    assert 1 <= len(lines) <= 2
    assert all(width_of(line) <= room + 1e-6 for line in lines)


def test_text_that_fits_stays_whole():
    assert shortened("kernel", 300) == "kernel"
    assert wrapped("one two three", width_of("one two")) == ("one two", "three")


def test_a_shortened_name_keeps_its_end_where_variants_differ():
    assert shortened("padded sort, filled by one kernel", 90).endswith("ernel")


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("two\n\nlines\there", "two lines here"),
        ("\x00\x1b[31m", "\ufffd\ufffd[31m"),
        ("\u202eright to left", "\ufffdright to left"),
        ("\u05e9\u05dc \u200f", "\u05e9\u05dc \u200f"),
    ],
)
def test_a_control_character_is_shown_and_not_obeyed(text, cleaned):
    assert clean(text) == cleaned


def test_a_name_in_another_direction_leaves_its_sentence_alone():
    assert isolated("\u05e9\u05dc") == "\u2068\u05e9\u05dc\u2069"
    assert isolated("hello") == "hello"


# Styles


def test_no_two_of_twelve_series_look_alike():
    looks = [
        (style.dash, style.shape % 5) for style in (style_of(n, muted=False) for n in range(12))
    ]
    assert len(set(looks)) == 12


def test_a_muted_series_is_grey_but_ours_never_is():
    assert style_of(1, muted=True).colour == 3
    assert style_of(0, muted=True).colour == 0
