"""An address names a file, and does not change when something else comes."""

from itertools import pairwise

import pytest

from warplog.address import matrix_address, tag_address, tag_anchor


def test_a_tag_that_can_be_an_anchor_is_its_own():
    assert tag_address("top-k") == "tags.html#top-k"


@pytest.mark.parametrize(
    "tags", [("c", "C"), ("C", "C++"), ("two words", "two-words"), ("日本", "日")]
)
def test_tags_that_look_alike_have_anchors_of_their_own(tags):
    for one, two in pairwise(tags):
        assert tag_anchor(one) != tag_anchor(two)


@pytest.mark.parametrize("tag", ["__drawer", "C++", "日本", "a b", '"', "é", "cp.async"])
def test_an_anchor_is_letters_digits_and_hyphens_and_never_the_themes(tag):
    anchor = tag_anchor(tag)
    assert anchor.replace("-", "").isalnum()
    assert anchor.isascii()


def test_a_filter_of_the_matrix_is_in_its_address():
    assert matrix_address() == "matrix.html"
    assert matrix_address(verdict="refuted", gpu="nvidia-h200") == (
        "matrix.html?verdict=refuted&gpu=nvidia-h200"
    )
