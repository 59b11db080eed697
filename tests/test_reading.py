"""The mean of several workloads: taken within each run, judged once, and said wherever it shows."""

import json

import pytest
from factory import FRONT, Lab, measured, record_of, timed
from pages import outcome, publish_later, row, shown
from shelf import html, journal
from test_claim import claim

from warplog import exchange, matrix, refutation, report
from warplog.claim import Judgement, Verdict, judge
from warplog.entry import fill, load
from warplog.evidence import Archive
from warplog.fault import Faults
from warplog.quantity import Quantity, readings
from warplog.reading import Reading, Unmeasured, mean_of
from warplog.record import Interval
from warplog.site import Site

MEAN = FRONT.replace("    workload: batch=31\n", "    workload: kind=old\n    mean: geometric\n")
MEAN = MEAN.replace("workload: batch=31}", "workload: kind=old, mean: arithmetic}")


def latency(runs, **workload):
    return measured("latency", "kernel", runs, **workload)


def pair(times, **workload):
    """A kernel of 10 µs and a peer that takes `times` as long."""
    kernel = latency([10e-6] * 6, **workload)
    return [kernel, measured("latency", "peer", [times * 10e-6] * 6, **workload)]


def record(tmp_path, *rows):
    return record_of(Lab(tmp_path / "record").artifact(), list(rows))


@pytest.fixture
def lab(tmp_path):
    """Speedups of 4 and of 25, whose geometric mean is 10; a third workload is of another kind."""
    lab = Lab(tmp_path / "lab")
    old = [*pair(4, kind="old", batch=1), *pair(25, kind="old", batch=2)]
    lab.publish(lab.artifact(), [*old, *pair(999, kind="new", batch=1)])
    lab.entry(MEAN)
    return lab


def test_an_arithmetic_mean_is_taken_within_each_run(tmp_path):
    """One workload slows down from run to run as the other speeds up: their mean does not see it."""
    drift = [1e-5 * run for run in range(1, 7)]
    found = record(tmp_path, latency(drift, batch=1), latency(drift[::-1], batch=2))
    (reading,) = readings(claim(mean="arithmetic"), found, None)
    assert reading.runs == (3.5e-5,) * 6
    assert (reading.mean, reading.workloads, reading.unit) == ("arithmetic", 2, "s")


def test_a_geometric_mean_of_speedups_multiplies_them(tmp_path):
    found = record(tmp_path, *pair(2, batch=1), *pair(32, batch=2), *pair(8, batch=3))
    asked = claim(metric="speedup", over="peer", mean="geometric", equals=8)
    (reading,) = readings(asked, found, None)
    assert reading.runs == (8.0,) * 6
    assert judge(asked, found, None).verdict is Verdict.SUPPORTED


def test_a_claim_about_a_mean_is_not_refuted_by_one_workload(tmp_path):
    found = record(tmp_path, latency([1e-6] * 6, batch=1), latency([15e-6] * 6, batch=2))
    assert judge(claim(at_most=9e-6), found, None).verdict is Verdict.REFUTED
    assert judge(claim(mean="arithmetic", at_most=9e-6), found, None).verdict is Verdict.SUPPORTED
    assert judge(claim(mean="arithmetic", at_most=7e-6), found, None).verdict is Verdict.REFUTED


def test_the_verdict_is_on_the_interval_of_the_mean(tmp_path):
    runs = [10e-6, 12e-6, 11e-6, 11e-6, 11e-6, 11e-6]
    found = record(tmp_path, latency(runs, batch=1), latency(runs, batch=2))
    judgement = judge(claim(mean="arithmetic", at_most=11e-6), found, None)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.interval == Interval(10e-6, 12e-6)
    assert (judgement.runs, judgement.workloads) == (6, 2)


def test_only_the_workloads_that_match_are_in_the_mean(tmp_path):
    rows = [latency([1e-5] * 6, kind="a", n=1), latency([3e-5] * 6, kind="a", n=2)]
    found = record(tmp_path, *rows, latency([1.0] * 6, kind="b", n=1))
    (reading,) = readings(claim(mean="arithmetic", workload={"kind": "a"}), found, None)
    assert reading.runs[0] == 2e-5
    assert reading.workload == {"kind": "a"}


@pytest.mark.parametrize("kind", ["arithmetic", "geometric"])
@pytest.mark.parametrize("value", [0.1, 1 / 3, 9e-6, 1e300, 123456.7])
def test_the_mean_of_equal_numbers_is_that_number_to_twelve_digits(kind, value):
    same = tuple(Reading({"n": n}, "s", (value,)) for n in range(23))
    assert mean_of(same, kind, {}).runs == (float(f"{value:.12g}"),)


def test_the_mean_of_one_workload_is_that_workload(tmp_path):
    found = record(tmp_path, latency([1e-5] * 6, batch=1))
    judgement = judge(claim(mean="geometric", equals=1e-5), found, None)
    assert judgement.verdict is Verdict.SUPPORTED
    assert judgement.span == "geometric mean of one workload"


def test_a_subject_that_failed_on_any_workload_has_no_mean(tmp_path):
    wrong = measured("latency", "kernel", None, failed="wrong on row 3", batch=2)
    found = record(tmp_path, latency([1e-5] * 6, batch=1), wrong)
    judgement = judge(claim(mean="arithmetic", at_most=1), found, None)
    assert judgement.verdict is Verdict.UNTESTED
    assert "wrong on row 3" in judgement.reason


def test_a_baseline_that_is_missing_on_one_workload_leaves_no_mean(tmp_path):
    found = record(tmp_path, *pair(2, batch=1), latency([1e-5] * 6, batch=2))
    with pytest.raises(Unmeasured, match=r"no latency of 'peer' on batch=2"):
        readings(claim(metric="speedup", over="peer", mean="geometric"), found, None)


def test_runs_that_do_not_pair_have_no_mean(tmp_path):
    found = record(tmp_path, latency([1e-5] * 6, batch=1), latency([1e-5], batch=2))
    with pytest.raises(Unmeasured, match="1 and in 6 runs, which do not pair"):
        readings(claim(mean="arithmetic"), found, None)


def test_numbers_of_different_units_have_no_mean(tmp_path):
    rows = [measured("size", "kernel", [1] * 6, unit=unit, of=unit) for unit in ("B", "rows")]
    with pytest.raises(Unmeasured, match="measured in B and in rows"):
        readings(claim(metric="size", mean="arithmetic"), record(tmp_path, *rows), None)


@pytest.mark.parametrize("least", [0, -1])
def test_a_geometric_mean_needs_numbers_above_zero(tmp_path, least):
    rows = [measured("rows", "kernel", [n] * 6, unit="rows", of=n) for n in (least, 4)]
    with pytest.raises(Unmeasured, match="above zero"):
        readings(claim(metric="rows", mean="geometric"), record(tmp_path, *rows), None)


def test_the_noise_of_a_mean_is_the_mean_of_the_noises():
    noises = [Interval(0.9, 1.1), Interval(0.7, 1.3)]
    found = tuple(Reading({"n": n}, "ratio", (1.0,), noise) for n, noise in enumerate(noises))
    noise = mean_of(found, "geometric", {}).noise
    assert (noise.low, noise.high) == pytest.approx((0.8, 1.2))
    assert mean_of((*found, Reading({}, "ratio", (1.0,))), "geometric", {}).noise is None


def test_an_answer_that_is_kept_is_not_that_of_another_mean(lab):
    """Evidence keeps its answers: the same quantity without a mean, and with either."""
    evidence = Archive(lab.repository).of("row-sum").devices["nvidia-h200"]
    kinds = (None, "arithmetic", "geometric")
    found = [
        evidence.readings(
            Quantity(
                metric="speedup",
                subject="kernel",
                over="peer",
                workload={"kind": "old"},
                mean=kind,
            )
        )
        for kind in kinds
    ]
    assert [[each.runs[0] for each in one] for one in found] == [
        pytest.approx([4, 25]),
        pytest.approx([14.5]),
        pytest.approx([10]),
    ]


@pytest.mark.parametrize(
    ("mean", "count", "words"),
    [
        (None, 1, ""),
        (None, 3, "over 3 workloads"),
        ("geometric", 23, "geometric mean of 23 workloads"),
    ],
)
def test_what_spans_workloads_says_how(mean, count, words):
    own = [Reading({}, "s", (1.0,))] * count
    found = own if mean is None else [Reading({}, "s", (1.0,), None, mean, count)]
    assert Judgement(Verdict.SUPPORTED, tuple(found)).span == words
    assert Judgement(Verdict.UNTESTED).span == ""


@pytest.mark.parametrize(
    ("before", "after", "remedy"),
    [
        ("mean: geometric", "mean: geometrical", "'geometrical' is no choice here; use geometric"),
        ("mean: geometric", "mean: median", "use one of: arithmetic, geometric"),
        ("mean: geometric", "mean: true", "mean: is true or false, not text; write text"),
        ("mean: geometric", "maen: geometric", "no key 'maen' is known here; use mean"),
        (
            "mean: arithmetic",
            "mean: arithmetical",
            "'arithmetical' is no choice here; use arithmetic",
        ),
    ],
)
def test_a_mean_that_is_none_is_a_fault_with_the_nearest_right_word(lab, before, after, remedy):
    path = lab.entry(MEAN.replace(before, after))
    with pytest.raises(Faults) as caught:
        load(path, lab.repository)
    (fault,) = map(str, caught.value.faults)
    assert remedy in fault
    assert fault.startswith(lab.line(path, after) + ": ")


def test_prose_shows_the_median_of_the_means(lab):
    """Not the range over all workloads."""
    path = lab.root / "entries" / "2026-12-02-one-sum.md"
    filled = fill(load(path, lab.repository), lab.repository)
    assert "[10×](#fast)" in filled
    assert "[10.0 µs](#time)" in filled


def test_the_page_of_an_entry_says_which_mean_and_of_how_many(lab):
    page = shown(lab)
    assert "geometric mean of speedup of kernel over peer, kind=old" in row(page, "fast")
    assert '<div class="wl-about">geometric mean of 2 workloads</div>' in row(page, "fast")
    assert "arithmetic mean of latency of kernel, kind=old" in row(page, "time")
    assert "6 runs, arithmetic mean of 2 workloads</div>" in row(page, "time")
    assert "in 6 runs, geometric mean of 2 workloads</p>" in page
    assert "kind=old, geometric mean of 2 workloads; record of" in page


def test_the_history_says_of_how_many_workloads_each_record_is_the_mean(lab):
    more = [*pair(4, kind="old", batch=1), *pair(25, kind="old", batch=2)]
    publish_later(lab, [*more, *pair(1000, kind="old", batch=3)])
    found = row(shown(lab), "fast")
    assert "46.4×, geometric mean of 3 workloads" in found
    assert "10×, geometric mean of 2 workloads" in found


def test_the_matrix_and_what_did_not_hold_say_it(lab):
    assert '<span class="wl-about">geometric mean of 2 workloads</span>' in html(
        matrix.page(journal(lab))
    )
    lab.entry(MEAN.replace("at_least: 10", "at_least: 11"))
    assert "10× as the geometric mean of 2 workloads on H200" in html(refutation.page(journal(lab)))


def test_the_data_for_machines_has_the_mean_and_the_number_of_workloads(lab):
    files = dict(exchange.files(journal(lab), Site("Warplog", "A journal.", ""), {}))
    (stated,) = json.loads(files["site.json"])["entries"][0]["claims"]
    assert (stated["mean"], stated["workload"]) == ("geometric", {"kind": "old"})
    assert stated["judged"][0]["workloads"] == 2
    assert stated["judged"][0]["interval"] == [10.0, 10.0]
    schema = json.loads(files["site.schema.json"])["$defs"]["Stated"]
    assert {"enum": ["arithmetic", "geometric"]} in schema["properties"]["mean"]["anyOf"]
    assert "mean" in schema["required"]


def test_data_without_a_mean_says_null(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.publish(lab.artifact(), timed(batch=31))
    lab.entry()
    files = dict(exchange.files(journal(lab), Site("Warplog", "A journal.", ""), {}))
    assert json.loads(files["site.json"])["entries"][0]["claims"][0]["mean"] is None


def test_the_end_of_a_reproduction_says_it(lab):
    found = outcome(lab)
    evidence = found.evidence[0]
    (line,) = report.rows([found.entry], found.known, evidence.record)
    assert report.measured(line.here) == "10×, geometric mean of 2 workloads"
    assert report.measured(line.published) == "10×, geometric mean of 2 workloads"
    assert line.here.verdict is Verdict.SUPPORTED
