"""The lists that sparse attention is timed on: counts, where runs lie, and what a reordering keeps."""

import functools

import pytest
import torch
from shared import dsa_lists
from shared.dsa import PAGE
from shared.dsa_lists import (
    CONTEST,
    FAMILIES,
    LONGEST,
    ROWS,
    Lists,
    contest,
    contest_like,
    contiguous,
    interleaved,
    shuffled,
    sorted_pads_first,
    sorted_pads_last,
    uniform,
)

SMALL = {"rows": 64 * PAGE, "width": 128}
CASES = range(len(CONTEST))
SUMS = [
    2, 29, 85, 72, 343, 30, 140, 292, 37, 1663, 1423, 1682, 2424, 1748, 2628, 111, 4758, 2308, 1697,
    1762, 4513, 3282, 3599,
]  # fmt: skip
ORDERS = {
    "shuffled": lambda lists: shuffled(lists, 3),
    "interleaved": interleaved,
    "sorted_pads_first": sorted_pads_first,
    "sorted_pads_last": sorted_pads_last,
}


@functools.cache
def full(name, seed=1):
    """A family at the public width and cache; of `contest` a case with full lists."""
    if name.startswith("contest "):
        return contest(int(name.split()[1]), seed)
    return FAMILIES[name](3, seed)


def of(*rows):
    return Lists(torch.tensor(rows, dtype=torch.int32))


def listed(lists):
    """The rows of each token, padding left out, in their order."""
    return [[row for row in one if row >= 0] for one in lists.indices.tolist()]


def pages_of(rows):
    return {row // PAGE for row in rows}


def test_the_counts_are_those_of_the_23_public_workloads():
    assert [sum(counts) for counts in CONTEST] == SUMS
    assert len(CONTEST) == 23
    assert sum(map(len, CONTEST)) == 120
    assert max(map(len, CONTEST)) == 8


@pytest.mark.parametrize("case", CASES)
def test_a_public_workload_has_its_counts_each_in_an_own_run(case):
    lists = contest(case, seed=case)
    assert lists.indices.shape == (len(CONTEST[case]), 2048)
    assert lists.indices.dtype == torch.int32
    assert lists.valid.tolist() == CONTEST[case]
    assert lists.rows == lists.unique_rows == SUMS[case]
    runs = listed(lists)
    for count, rows in zip(CONTEST[case], runs, strict=True):
        if count < 2048:
            assert rows == list(range(rows[0], rows[0] + count))
            assert rows[0] % PAGE == 0
            assert lists.indices[runs.index(rows), :count].tolist() == rows
    taken = [pages_of(rows) for rows in runs]
    assert sum(map(len, taken)) == len(set().union(*taken))
    assert min(map(min, runs)) >= PAGE
    assert max(map(max, runs)) < ROWS


@pytest.mark.parametrize("case", [12, 16])
def test_a_full_list_is_an_unsorted_choice_from_a_longer_context(case):
    for seed in range(4):
        lists = contest(case, seed)
        (rows,) = (one for one in listed(lists) if len(one) == 2048)
        first = min(rows) // PAGE * PAGE
        assert len(set(rows)) == 2048
        assert rows != sorted(rows)
        assert 2048 < max(rows) - first + 1 <= LONGEST


def test_the_context_behind_a_full_list_is_of_any_length_up_to_the_longest():
    spans = []
    for seed in range(30):
        (rows,) = (one for one in listed(contest(12, seed)) if len(one) == 2048)
        spans.append(max(rows) - min(rows) + 1)
    assert min(spans) < 3000
    assert max(spans) > 5000


def test_a_narrow_list_cuts_the_counts_and_keeps_the_shape_of_the_rest():
    lists = contest(9, 1, rows=4096, width=64)
    assert lists.valid.tolist() == [64, 48, 64, 14, 64, 30, 16, 8]
    assert lists.indices.shape == (8, 64)
    assert int(lists.indices.max()) < 4096


def test_lists_like_the_public_ones_have_public_counts_by_the_number_of_tokens():
    """Every seed is the same amount of work."""
    known = {count for counts in CONTEST for count in counts}
    one, other = contest_like(16, 1), contest_like(16, 2)
    assert set(one.valid.tolist()) <= known
    assert one.valid.tolist() == other.valid.tolist()
    assert not torch.equal(one.indices, other.indices)
    assert contest_like(17, 1).valid.tolist()[:16] != one.valid.tolist()
    assert sum(map(len, map(pages_of, listed(one)))) == len(
        set().union(*map(pages_of, listed(one)))
    )


def test_a_contiguous_list_is_one_run_from_the_start_of_a_page():
    lists = contiguous(5, 1)
    runs = listed(lists)
    for rows in runs:
        assert rows == list(range(rows[0], rows[0] + 2048))
        assert rows[0] % PAGE == 0
        assert rows[0] >= PAGE
    assert lists.unique_rows == lists.rows == 5 * 2048


def test_a_uniform_list_has_distinct_rows_from_all_of_the_cache():
    lists = full("uniform")
    for rows in listed(lists):
        assert len(set(rows)) == 2048
        assert min(rows) < ROWS // 100
        assert max(rows) > ROWS - ROWS // 100
    assert 3 * 2048 * 0.98 < lists.unique_rows <= 3 * 2048


def test_a_uniform_list_keeps_to_a_smaller_cache():
    lists = uniform(2, 1, rows=131_072)
    assert int(lists.indices.max()) < 131_072
    assert uniform(1, 1, rows=128, width=128).indices.sort().values.tolist() == [list(range(128))]


@pytest.mark.parametrize("block", [4, 16, 64])
def test_a_clustered_list_is_of_whole_distinct_blocks_in_random_order(block):
    for rows in listed(full(f"clustered-{block}")):
        blocks = [rows[start : start + block] for start in range(0, 2048, block)]
        firsts = [one[0] for one in blocks]
        assert all(one == list(range(one[0], one[0] + block)) for one in blocks)
        assert all(first % block == 0 for first in firsts)
        assert len(set(firsts)) == 2048 // block
        assert firsts != sorted(firsts)


def test_a_shared_list_is_the_same_for_every_token():
    lists = full("shared")
    assert (lists.indices == lists.indices[0]).all()
    assert (lists.rows, lists.unique_rows) == (3 * 2048, 2048)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_repeats_by_seed_and_differs_between_seeds(name):
    one, again, other = (FAMILIES[name](3, seed, **SMALL) for seed in (1, 1, 2))
    assert torch.equal(one.indices, again.indices)
    assert not torch.equal(one.indices, other.indices)
    assert one.valid.tolist() == other.valid.tolist()


@pytest.mark.parametrize("name", FAMILIES)
def test_every_row_of_a_family_is_in_the_cache(name):
    indices = full(name).indices
    assert indices.shape == (3, 2048)
    assert indices.dtype == torch.int32
    assert indices.is_contiguous()
    assert int(indices.min()) >= -1
    assert int(indices.max()) < ROWS


@pytest.mark.parametrize("name", FAMILIES)
def test_a_cache_that_is_too_small_is_a_clear_error(name):
    with pytest.raises(ValueError, match="use a larger cache"):
        FAMILIES[name](3, 1, rows=PAGE, width=128)


def test_runs_fit_into_a_cache_of_just_their_pages_and_page_0():
    rows = (1 + 3 * 2) * PAGE
    lists = contiguous(3, 1, rows=rows, width=128)
    assert sorted(row for one in listed(lists) for row in one) == list(range(PAGE, rows))
    with pytest.raises(ValueError, match="runs of 384 rows do not fit into 384"):
        contiguous(3, 1, rows=rows - PAGE, width=128)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["contest 12", "contest 1", "uniform", "contiguous"])
def test_a_reordering_keeps_the_rows_of_each_token_and_changes_no_list(order, name):
    lists = full(name)
    before = lists.indices.clone()
    found = ORDERS[order](lists)
    assert torch.equal(lists.indices, before)
    assert torch.equal(found.indices.sort(dim=1).values, before.sort(dim=1).values)
    assert found.indices.dtype == torch.int32
    assert found.indices.is_contiguous()
    assert (found.rows, found.unique_rows, found.bytes) == (
        lists.rows,
        lists.unique_rows,
        lists.bytes,
    )


@pytest.mark.parametrize("order", ORDERS)
def test_a_reordering_keeps_a_row_that_is_listed_twice(order):
    found = ORDERS[order](of([7, 7, -1, 3, -1, 7], [-1] * 6))
    assert sorted(found.indices[0].tolist()) == [-1, -1, 3, 7, 7, 7]
    assert found.indices[1].tolist() == [-1] * 6


def test_each_list_is_shuffled_by_itself_padding_included():
    lists = of([1, 2, 3, 4, -1, -1, -1, -1], [1, 2, 3, 4, -1, -1, -1, -1])
    found = [shuffled(lists, seed).indices for seed in range(20)]
    assert any(one[0].tolist() != one[1].tolist() for one in found)
    assert any(one[0, 0] == -1 for one in found)
    assert torch.equal(found[0], shuffled(lists, 0).indices)
    assert any(not torch.equal(found[0], one) for one in found)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([5, 9, 2, -1, -1, -1, -1, -1], [5, -1, 9, -1, -1, 2, -1, -1]),
        ([-1, -1, 5, -1, 9, -1, -1, 2], [5, -1, 9, -1, -1, 2, -1, -1]),
        ([-1] * 8, [-1] * 8),
        ([-1] * 7 + [3], [3] + [-1] * 7),
        ([8, 7, 6, 5, 4, 3, 2, 1], [8, 7, 6, 5, 4, 3, 2, 1]),
    ],
)
def test_padding_is_spread_evenly_and_rows_keep_their_order(rows, expected):
    assert interleaved(of(rows)).indices.tolist() == [expected]


def test_sorting_puts_padding_where_its_name_says():
    lists = of([9, -1, 0, 4, -1, 4], [-1, -1, -1, -1, -1, -1])
    assert sorted_pads_first(lists).indices.tolist() == [[-1, -1, 0, 4, 4, 9], [-1] * 6]
    assert sorted_pads_last(lists).indices.tolist() == [[0, 4, 4, 9, -1, -1], [-1] * 6]


def test_what_lists_say_of_themselves():
    """Two rows of 1152 bytes; 34,880 bytes a token for its queries and answers, and 4 a place."""
    lists = of([3, 3, -1, 7], [3, -1, -1, -1])
    assert lists.valid.tolist() == [3, 1]
    assert (lists.rows, lists.unique_rows) == (4, 2)
    assert lists.bytes == 2 * 1152 + 2 * (34_880 + 4 * 4)
    assert of([-1, -1]).unique_rows == 0


def test_the_cache_is_the_public_one():
    assert dsa_lists.ROWS == 8462 * 64 == 541_568
