"""What two records are to each other: one word, its reasons, and the numbers that differ most."""

import msgspec
import pytest
from factory import H200, Lab, measured, record_of, timed
from typer.testing import CliRunner

from warplog import cli
from warplog.contrast import Kind, contrast
from warplog.record import Protocol, dumps


@pytest.fixture
def artifact(tmp_path):
    return Lab(tmp_path / "lab").artifact()


@pytest.fixture
def against(artifact):
    """The contrast of a plain record with one of `rows` in which `changes` replace fields."""

    def look(rows=None, about=None, **changes):
        plain = record_of(artifact, timed(batch=31))
        environment = msgspec.structs.replace(plain.environment, **(about or {}))
        rows = timed(batch=31) if rows is None else rows
        return contrast(plain, record_of(artifact, rows, environment=environment, **changes))

    return look


def latencies(factor, again=1.0, rows=None):
    """The plain record's times but for the kernel's, which take `factor` times as long; the baseline is
    `again` times from itself.
    """
    scaled = {("latency", "kernel"): factor, ("latency_again", "peer"): again}
    return [
        msgspec.structs.replace(
            each,
            runs=[
                [v * scaled.get((each.metric, each.subject), 1) for v in run] for run in each.runs
            ],
        )
        for each in rows or timed(batch=31)
    ]


def test_a_record_is_the_same_as_itself(against):
    found = against()
    assert found.kind is Kind.SAME
    assert (found.reasons, found.apart, len(found.differences)) == ((), 0, 3)


def test_runs_that_overlap_are_the_same(against):
    assert against(latencies(1.015)).kind is Kind.SAME


def test_runs_no_further_apart_than_the_baseline_from_itself_are_the_same(against):
    """The kernel's runs spread by two percent, and the baseline's lie one percent from themselves."""
    assert against(latencies(1.025)).kind is Kind.SAME
    assert against(latencies(1.045)).kind is Kind.APART


def test_a_noisy_record_does_not_widen_the_noise_it_is_held_to(artifact):
    """The noise is that of the first, which is published, and not that of what is offered."""
    plain = record_of(artifact, timed(batch=31))
    noisy = record_of(artifact, latencies(1.045, again=1.05))
    assert contrast(plain, noisy).kind is Kind.APART
    assert contrast(noisy, plain).kind is Kind.SAME


def test_it_says_that_all_latencies_are_one_ratio(artifact, compared):
    one = record_of(artifact, timed(batch=31))
    scaled = [
        msgspec.structs.replace(each, runs=[[value * 0.7 for value in run] for run in each.runs])
        if each.unit == "s"
        else each
        for each in timed(batch=31)
    ]
    words = "2 of 2 latencies beyond noise; 0 of 1 other numbers differ; every latency is 0.7 times"
    assert words in compared(one, record_of(artifact, scaled)).output
    assert "every latency is" not in compared(one, record_of(artifact, latencies(2))).output


def test_the_number_that_differs_most_comes_first(against):
    found = against(latencies(2))
    assert found.apart == 1
    first = found.differences[0]
    assert (first.metric, first.subject, first.workload) == ("latency", "kernel", "batch=31")
    assert first.medians[1] == pytest.approx(2 * first.medians[0])
    assert first.apart


def test_a_count_that_differs_is_apart(against):
    rows = [*timed(batch=31)[:3], measured("mismatches", "kernel", [1] * 6, unit="rows", batch=31)]
    found = against(rows)
    assert found.kind is Kind.APART
    assert found.differences[0].metric == "mismatches"


def test_errors_and_host_times_decide_nothing(artifact):
    def record(value):
        rows = [measured(name, "kernel", [value] * 6, n=1) for name in ("error", "host_time")]
        return record_of(artifact, [*timed(batch=31), *rows])

    assert contrast(record(1e-6), record(1e-3)).kind is Kind.SAME


def test_the_order_of_sizes_does_not_matter(artifact):
    one = record_of(artifact, [measured("latency", "kernel", [1e-3] * 6, a=1, b=2)])
    other = record_of(artifact, [measured("latency", "kernel", [1e-3] * 6, b=2, a=1)])
    assert len(contrast(one, other).differences) == 1


def test_what_only_one_record_has_is_counted(against):
    found = against([*timed(batch=31), *timed(batch=8)])
    assert found.alone == (0, 3)
    assert found.kind is Kind.APART


FAILED = measured("latency", "kernel", None, failed="3 elements differ\x1b[2J", batch=31)


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"rows": [*timed(batch=31)[1:], FAILED]}, Kind.WRONG, "'kernel' on batch=31: 3 elements"),
        ({"device": "nvidia-b200"}, Kind.DEVICE, "nvidia-h200, nvidia-b200"),
        ({"about": {"driver": "590.1"}}, Kind.DEVICE, "driver 580.95, 590.1"),
        ({"about": {"gpu": H200 | {"multiprocessors": 114}}}, Kind.DEVICE, "multiprocessors 132, 114"),
        ({"about": {"packages": {"torch": "2.12.0"}}}, Kind.DEVICE, "torch 2.11.0, 2.12.0"),
        (
            {"about": {"variables": {"CUDA_LAUNCH_BLOCKING": "1"}}},
            Kind.DEVICE,
            "CUDA_LAUNCH_BLOCKING not set, 1",
        ),
        ({"protocol": Protocol(2, 6, "filled queue", 134_217_728)}, Kind.PROTOCOL, "version 1, 2"),
        ({"protocol": Protocol(1, 6, "events", 134_217_728)}, Kind.PROTOCOL, "timer filled queue, events"),
        (
            {"protocol": Protocol(1, 6, "filled queue", 134_217_728, "sha256:1")},
            Kind.PROTOCOL,
            "other modules of the harness",
        ),
        ({"disturbed": ["run 2: thermal slowdown"]}, Kind.DISTURBED, "the second: run 2: thermal slowdown"),
    ],
)  # fmt: skip
def test_each_reason_has_its_word(against, changes, kind, words):
    found = against(**changes)
    assert found.kind is kind
    assert words in dict(found.reasons)[kind]


def test_other_source_names_the_files(tmp_path):
    lab = Lab(tmp_path / "lab")
    one = record_of(lab.artifact(), timed(batch=31))
    other = record_of(lab.artifact(kernel="pass\n"), timed(batch=31))
    assert contrast(one, other).reasons == ((Kind.SOURCE, "kernel.py"),)


def test_what_only_one_record_states_of_its_machine_is_no_difference(against):
    assert against(about={"gpu": H200 | {"ecc": "on"}}).kind is Kind.SAME


def test_a_failure_that_both_have_is_no_difference(artifact):
    one = record_of(artifact, [*timed(batch=31)[1:], FAILED])
    assert contrast(one, one).kind is Kind.SAME


def test_the_gravest_reason_names_it_and_all_are_told(against):
    found = against([*timed(batch=31)[1:], FAILED], device="nvidia-b200", disturbed=["x"])
    assert [kind for kind, _ in found.reasons] == [Kind.WRONG, Kind.DEVICE, Kind.DISTURBED]


@pytest.fixture
def compared(tmp_path):
    """What the command says of two records."""

    def run(one, other, *words):
        paths = [tmp_path / "one.json", tmp_path / "other.json"]
        for path, record in zip(paths, (one, other), strict=True):
            path.write_text(dumps(record), encoding="utf-8")
        return CliRunner().invoke(cli.app, ["compare-records", *map(str, paths), *words])

    return run


def test_the_command_ends_with_0_where_nothing_differs(artifact, compared):
    one = record_of(artifact, timed(batch=31))
    result = compared(one, one)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("same within noise: row-sum, nvidia-h200 2026-12-02T10:15:00Z")
    counted = (
        "0 of 2 latencies beyond noise; 0 of 1 other numbers differ; every latency is the first's"
    )
    assert result.output.splitlines()[-1].strip().startswith(counted)


def test_the_command_shows_what_differs_most(artifact, compared):
    one, other = record_of(artifact, timed(batch=31)), record_of(artifact, latencies(2))
    result = compared(one, other, "--shown", "1")
    assert result.exit_code == 1
    assert result.output.startswith("apart, and no record says why: row-sum")
    line = next(each for each in result.output.splitlines() if "latency of kernel batch=31" in each)
    assert "9.90–10.1 µs" in line
    assert "2.000" in line
    assert "beyond" in line
    assert "latency of peer" not in result.output


def test_the_command_shows_no_escape_of_a_program(artifact, compared):
    one = record_of(artifact, timed(batch=31))
    other = record_of(artifact, [*timed(batch=31)[1:], FAILED])
    result = compared(one, other)
    assert "wrong output in the second: 'kernel' on batch=31: 3 elements differ" in result.output
    assert result.output.startswith("wrong output in the second: row-sum")
    mended = compared(other, one)
    assert mended.output.startswith("right where the first is wrong: row-sum")
    assert mended.exit_code == 1
    assert "\x1b" not in result.output


def test_two_artifacts_are_not_compared(tmp_path, compared):
    lab = Lab(tmp_path / "lab")
    one, other = (record_of(lab.artifact(slug), timed(batch=31)) for slug in ("row-sum", "row-max"))
    assert "row-sum and row-max are two artifacts" in str(compared(one, other).exception)


def test_a_file_that_is_none_says_so(tmp_path):
    result = CliRunner().invoke(
        cli.app, ["compare-records", str(tmp_path / "a"), str(tmp_path / "b")]
    )
    assert "name the file of a record" in str(result.exception)


def test_what_grows_from_zero_has_no_ratio(artifact, compared):
    rows = [*timed(batch=31)[:3], measured("mismatches", "kernel", [1] * 6, unit="rows", batch=31)]
    result = compared(record_of(artifact, timed(batch=31)), record_of(artifact, rows))
    assert "from zero" in result.output
