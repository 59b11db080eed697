"""Identifiers are found by any of their parts."""

import pytest

from warplog.lexicon import identifiers


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("tl.load", ["tl.load", "tl", "load"]),
        ("num_stages", ["num_stages", "num", "stages"]),
        ("_STERound", ["_STERound", "STERound", "STE", "Round"]),
        ("BLOCK_SIZE_M", ["BLOCK_SIZE_M", "BLOCK", "SIZE"]),
        ("HTTPServer", ["HTTPServer", "HTTP", "Server"]),
        (
            "cp.async.wait_group",
            ["cp.async.wait_group", "cp", "async", "wait_group", "wait", "group"],
        ),
        ("__shared__", ["__shared__", "shared"]),
    ],
)
def test_a_name_is_split_at_dots_then_underscores_then_case(name, found):
    assert identifiers([name]) == found


@pytest.mark.parametrize("name", ["m16n8k16", "bf16", "fp8e4m3"])
def test_a_type_or_a_shape_stays_whole(name):
    assert identifiers([name]) == [name]


def test_each_name_comes_once_over_all_texts_whatever_else_is_between():
    assert identifiers(["tl.load(x) + tl.load(y)", "load = 3"]) == ["tl.load", "tl", "load"]


def test_what_every_program_has_says_nothing():
    assert identifiers(["def f(x): return self.x if None else 42"]) == ["self.x"]


def test_assembly_in_a_string_is_code_too():
    assert "cp.async.cg.shared.global" in identifiers(
        ['asm volatile("cp.async.cg.shared.global [%0];")']
    )


def test_a_name_of_a_thousand_letters_is_left_out():
    assert identifiers(["x" * 1000 + " short"]) == []
