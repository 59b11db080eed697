"""Derived metrics, and how an interval and a claim decide a verdict."""

import math

import pytest
from factory import Lab, measured, record_of, timed
from hypothesis import given
from hypothesis import strategies as st

from warplog.claim import Claim, Verdict, compare, judge
from warplog.quantity import WORK_CEILING, Quantity, readings
from warplog.reading import Unmeasured
from warplog.record import Interval, compact
from warplog.workload import parse_workload, plain, spell

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
intervals = st.tuples(finite, finite).map(lambda ends: Interval(min(ends), max(ends)))


def claim(**fields):
    return Claim(**{"metric": "latency", "subject": "kernel", "says": "It is so.", **fields})


@pytest.fixture
def record(tmp_path):
    """A record with two workloads: twelve times as fast on both."""
    artifact = Lab(tmp_path / "lab").artifact()
    return record_of(artifact, [*timed(batch=1), *timed(batch=2)])


@pytest.fixture
def ceilings(tmp_path):
    """A device that copies at 4 TB/s and multiplies at 1 Pop/s."""
    artifact = Lab(tmp_path / "floor").artifact("ceilings")
    copy = measured("latency", "copy", [1e-3] * 6, traffic=4_000_000_000)
    work = 1_000_000_000_000
    matmul = measured("latency", "matmul", [1e-3] * 6, work=work, dtype=WORK_CEILING)
    return record_of(artifact, [copy, matmul])


@given(intervals, intervals)
def test_the_verdict_is_how_two_intervals_lie(measured_interval, bounds):
    """Inside: every value is within; apart: none is; astride: some are and some are not."""
    ends = [measured_interval.low, measured_interval.high]
    inside = [bounds.low <= end <= bounds.high for end in ends]
    verdict = compare(measured_interval, bounds)
    if verdict is Verdict.SUPPORTED:
        assert all(inside)
    elif verdict is Verdict.REFUTED:
        assert not any(inside)
        assert not measured_interval.low <= bounds.low <= measured_interval.high
    else:
        assert not all(inside)


@given(intervals, intervals, intervals)
def test_more_spread_never_turns_a_verdict_into_its_opposite(narrow, more, bounds):
    wide = Interval(min(narrow.low, more.low), max(narrow.high, more.high))
    pair = {compare(narrow, bounds), compare(wide, bounds)}
    assert pair != {Verdict.SUPPORTED, Verdict.REFUTED}


def test_a_bound_belongs_to_the_claim():
    """An interval that ends exactly at the bound is inside it."""
    assert compare(Interval(1, 2), Interval(2, 3)) is Verdict.INCONCLUSIVE
    assert compare(Interval(2, 2), Interval(2, 3)) is Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("bounds", "ends"),
    [
        ({"at_least": 10}, (10, math.inf)),
        ({"at_most": 10}, (-math.inf, 10)),
        ({"equals": 0}, (0, 0)),
        ({"between": (1, 2)}, (1, 2)),
    ],
)
def test_each_kind_of_bound_is_an_interval(bounds, ends):
    found = claim(**bounds).bounds
    assert (found.low, found.high) == ends


def test_a_speedup_is_taken_within_each_run(tmp_path):
    """Both subjects slow down together from run to run: the ratio does not see it."""
    artifact = Lab(tmp_path / "lab").artifact()
    drift = [1e-5 * (1 + run) for run in range(6)]
    found = record_of(
        artifact,
        [
            measured("latency", "kernel", drift, batch=1),
            measured("latency", "peer", [2 * seconds for seconds in drift], batch=1),
        ],
    )
    quantity = Quantity(metric="speedup", subject="kernel", over="peer")
    assert readings(quantity, found, None)[0].runs == pytest.approx([2] * 6)


def test_a_speedup_carries_the_spread_of_the_baseline_against_itself(record):
    quantity = Quantity(metric="speedup", subject="kernel", over="peer", workload={"batch": 1})
    noise = readings(quantity, record, None)[0].noise
    assert (noise.low, noise.high) == pytest.approx((1 - 1 / 101, 1 + 1 / 101))


def test_a_speedup_inside_that_spread_is_within_noise(record):
    same = claim(metric="speedup", subject="peer", over="peer", at_least=0)
    assert judge(same, record, None).within_noise
    fast = claim(metric="speedup", subject="kernel", over="peer", at_least=0)
    assert not judge(fast, record, None).within_noise


def test_rates_are_amounts_over_seconds(record):
    bandwidth = Quantity(metric="bandwidth", subject="kernel", workload={"batch": 1})
    reading = readings(bandwidth, record, None)[0]
    assert (reading.unit, reading.runs[0]) == ("B/s", pytest.approx(4e11))
    rate = Quantity(metric="rate", subject="kernel", workload={"batch": 1})
    assert readings(rate, record, None)[0].runs[0] == pytest.approx(1e11)


def test_a_rate_needs_the_amount(tmp_path):
    artifact = Lab(tmp_path / "lab").artifact()
    found = record_of(artifact, [measured("latency", "kernel", [1e-5] * 6)])
    with pytest.raises(Unmeasured, match="traffic"):
        readings(Quantity(metric="bandwidth", subject="kernel"), found, None)


def test_a_roofline_fraction_needs_ceilings_of_this_device(record, ceilings):
    """4 MB at 4 TB/s are 1 µs, the longer of the two floors; the kernel takes 10 µs."""
    quantity = Quantity(metric="roofline_fraction", subject="kernel", workload={"batch": 1})
    assert readings(quantity, record, ceilings)[0].runs[0] == pytest.approx(0.1)
    with pytest.raises(Unmeasured, match="ceilings"):
        readings(quantity, record, None)


def test_a_claim_about_several_workloads_is_refuted_by_any_one(tmp_path):
    artifact = Lab(tmp_path / "lab").artifact()
    found = record_of(
        artifact,
        [
            measured("latency", "kernel", [1e-5] * 6, batch=1),
            measured("latency", "kernel", [9e-5] * 6, batch=2),
        ],
    )
    assert judge(claim(at_most=5e-5), found, None).verdict is Verdict.REFUTED
    assert judge(claim(at_most=9e-5), found, None).verdict is Verdict.SUPPORTED
    one = claim(at_most=5e-5, workload={"batch": 1})
    assert judge(one, found, None).verdict is Verdict.SUPPORTED


def test_nothing_measured_is_untested_with_a_reason(record):
    assert judge(claim(at_most=1), None, None).verdict is Verdict.UNTESTED
    absent = judge(claim(subject="ghost", at_most=1), record, None)
    assert absent.verdict is Verdict.UNTESTED
    assert "'ghost'" in absent.reason


def test_a_subject_that_failed_is_untested_and_says_why(tmp_path):
    artifact = Lab(tmp_path / "lab").artifact()
    failed = measured("latency", "kernel", None, failed="wrong on row 3")
    judgement = judge(claim(at_most=1), record_of(artifact, [failed]), None)
    assert judgement.verdict is Verdict.UNTESTED
    assert "wrong on row 3" in judgement.reason


def test_a_workload_reads_back_as_written():
    text = "batch=31 scale=0.5 mode=cold"
    assert parse_workload(text) == {"batch": 31, "scale": 0.5, "mode": "cold"}
    assert spell(parse_workload(text)) == text


names = st.text("abc_", min_size=1, max_size=3)
sizes = st.one_of(st.integers(-(10**20), 10**20), st.floats(-1e300, 1e300), st.text())


@given(st.dictionaries(names, sizes, max_size=4))
def test_every_workload_can_be_spelled_and_read_back(workload):
    """Spaces, quotes, backslashes, texts that look like numbers: an entry can name them all."""
    again = parse_workload(spell(workload))
    assert list(again) == list(workload)
    assert {key: plain(value) for key, value in again.items()} == {
        key: plain(value) for key, value in workload.items()
    }


def test_a_size_with_spaces_is_quoted():
    assert parse_workload('kind="two words" batch=1') == {"kind": "two words", "batch": 1}
    assert spell({"kind": 'say "so"'}) == r'kind="say \"so\""'
    assert parse_workload("digits=1_0 hex=0x1f") == {"digits": "1_0", "hex": "0x1f"}


@pytest.mark.parametrize("size", ["16", "0.50", "1e3", 16, "two words"])
def test_a_size_is_named_by_its_spelling(tmp_path, size):
    artifact = Lab(tmp_path / "lab").artifact()
    found = record_of(artifact, [measured("latency", "kernel", [1e-5] * 6, bits=size)])
    asked = Quantity(
        metric="latency", subject="kernel", workload=parse_workload(spell({"bits": size}))
    )
    assert readings(asked, found, None)


@pytest.mark.parametrize("kind", ["at_least", "at_most", "equals"])
def test_a_bound_that_no_float_holds_is_infinite(kind):
    huge = 10**400
    assert math.inf in (claim(**{kind: huge}).bounds.low, claim(**{kind: huge}).bounds.high)


def test_a_bound_keeps_six_digits_as_numbers_do(tmp_path):
    artifact = Lab(tmp_path / "lab").artifact()
    found = record_of(artifact, [measured("latency", "kernel", [compact(0.1234567)] * 6)])
    assert judge(claim(equals=0.1234567), found, None).verdict is Verdict.SUPPORTED
    assert claim(equals=1_234_567).bounds.low == 1_234_567


@pytest.mark.parametrize(
    ("kernel", "peer"), [([0.0] * 6, [1e-5] * 6), ([1e-5] * 6, [1e-5]), ([5e-324] * 6, [1.0] * 6)]
)
def test_a_ratio_that_is_no_number_is_unmeasured(tmp_path, kernel, peer):
    artifact = Lab(tmp_path / "lab").artifact()
    rows = [
        measured("latency", "kernel", kernel, traffic=10**300, work=1),
        measured("latency", "peer", peer),
        measured("latency_again", "peer", [0.0]),
    ]
    found = record_of(artifact, rows)
    asked = claim(metric="speedup", subject="kernel", over="peer", at_least=1)
    assert judge(asked, found, None).verdict is Verdict.UNTESTED
    if kernel[0] < 1e-5:
        asked = claim(metric="bandwidth", at_least=1)
        assert judge(asked, found, None).verdict is Verdict.UNTESTED


@pytest.mark.parametrize("text", ["batch", "batch=", "=31", "batch=1 length", 'a="b', 'a="b"c'])
def test_a_workload_that_is_no_list_of_sizes_is_refused(text):
    with pytest.raises(ValueError, match="name=value"):
        parse_workload(text)


def test_a_size_given_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        parse_workload("batch=1 batch=2")
