"""A sum of verdicts hides none of them."""

from collections import Counter

import pytest

from warplog.claim import Judgement, Verdict
from warplog.journal import Column
from warplog.tally import in_words, plural, short_name, sum_badge, sum_glyph, summary

SUPPORTED, REFUTED = Judgement(Verdict.SUPPORTED), Judgement(Verdict.REFUTED)


def column(*judgements):
    return Column("nvidia-h200", None, {str(n): each for n, each in enumerate(judgements)})


def test_claims_that_agree_share_their_verdict():
    both = column(SUPPORTED, SUPPORTED)
    assert summary(both) is Verdict.SUPPORTED
    assert "wl-supported" in sum_badge(both)
    assert 'aria-label="supported"' in sum_glyph(both)


def test_claims_that_differ_are_mixed():
    both = column(SUPPORTED, REFUTED)
    assert "</span> mixed</span>" in sum_badge(both)
    assert 'aria-label="mixed"' in sum_glyph(both)


def test_an_entry_without_claims_has_no_verdict():
    assert summary(column()) is None
    assert "no claims" in sum_badge(column())
    assert "no claims" in sum_glyph(column())


def test_counts_stand_in_the_order_of_the_verdicts():
    counts = Counter({Verdict.REFUTED: 3, Verdict.SUPPORTED: 28})
    assert in_words(counts) == "28 supported, 3 refuted"


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 entries"), (1, "1 entry"), (2, "2 entries"), (12_000, "12\u202f000 entries")],
)
def test_a_count_agrees_with_its_noun(count, words):
    assert plural(count, "entry", "entries") == words


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("AMD Instinct MI300X", "MI300X"),
        ("NVIDIA", "NVIDIA"),
        ("", ""),
    ],
)
def test_a_gpu_is_called_without_its_maker(name, short):
    assert short_name(name) == short


@pytest.mark.parametrize(
    ("device", "short"),
    [
        ("nvidia-h200", "H200"),
        ("nvidia-geforce-rtx-5090", "RTX 5090"),
        ("nvidia-rtx-5000-ada-generation", "RTX 5000 Ada Generation"),
        ("nvidia-h100-80gb-hbm3", "H100 80GB HBM3"),
        ("cpu", "cpu"),
        ("nvidia", "nvidia"),
        ("other-thing-1", "other-thing-1"),
    ],
)
def test_a_device_that_no_record_names_reads_like_those_that_have_a_name(device, short):
    assert short_name(device) == short
