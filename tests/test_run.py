"""What a script may ask for, and what it is told when it may not."""

import numpy as np
import pytest
import torch

from warplog.measure import Wrong
from warplog.run import Run
from warplog.timer import Sample


def double(x):
    return x * 2


def reference(x):
    return x.double() * 2


def test_sizes_are_tiny_without_a_gpu(run):
    assert run.sizes(full=[1, 2], tiny=[3]) == [3]
    run.on_gpu = True
    assert run.sizes(full=[1, 2], tiny=[3]) == [1, 2]


def test_error_latency_and_host_time_are_recorded_with_what_a_call_moves(run, written, numbers):
    run.compare(
        {"a": double, "b": double}, reference, numbers,
        traffic={"a": 8000}, work=1000, samples=5, n=1000,
    )  # fmt: skip
    latency = written.metric("latency", "a")
    assert len(latency["runs"][0]) == 5
    assert (latency["traffic"], latency["work"]) == (8000, 1000)
    assert (latency["timer"], latency["cache"]) == ("host", "cold")
    assert "traffic" not in written.metric("latency", "b")
    assert len(written.metric("host_time", "a")["runs"][0]) == 5
    assert written.metric("error", "b")["runs"] == [[0.0]]


def test_the_baseline_is_timed_against_itself(run, written, numbers):
    run.compare({"a": double, "b": double}, reference, numbers, baseline="b", samples=3, n=1000)
    assert len(written.metric("latency_again", "b")["runs"][0]) == 3
    with pytest.raises(AssertionError):
        written.metric("latency_again", "a")


def test_without_a_clock_or_with_time_false_nothing_is_timed(written, run, numbers):
    Run(written.append).compare({"a": double}, reference, numbers, n=1)
    run.compare({"a": double}, reference, numbers, time=False, n=2)
    metrics = {each["measurement"]["metric"] for each in written if "measurement" in each}
    assert metrics == {"error"}


def test_a_timer_that_was_never_queued_is_named(written, numbers):
    class Unqueued:
        name, flush_bytes = "queue", 0

        def time(self, _name, call, *, warm):
            assert warm
            return Sample(1e-3, 1e-6, call(), queued=False)

    Run(written.append, timer=Unqueued()).compare(
        {"a": double}, reference, numbers, cache="warm", samples=2, n=1000
    )
    assert written.metric("latency", "a")["timer"] == "events"


def test_numpy_torch_and_bool_sizes_become_plain_ones(run, written):
    run.count("n", np.int64(3), unit="rows", subject="s", rows=np.int32(4), causal=True)
    run.count("n", torch.tensor(2.5), unit="rows", subject="s", scale=torch.tensor(2), mode="a b")
    first, second = (each["measurement"] for each in written)
    assert (first["workload"], first["runs"]) == ({"rows": 4, "causal": "true"}, [[3]])
    assert (second["workload"], second["runs"]) == ({"scale": 2, "mode": "a b"}, [[2.5]])


BAD_COUNTS = {
    "nothing": ([], "0 values; give 1 to 100"),
    "too many": (list(range(101)), "101 values; give 1 to 100"),
    "nan": (float("nan"), "nan is not a finite number"),
    "none": (None, "None is not a finite number"),
    "word": ("three", "'three' is not a finite number"),
}


@pytest.mark.parametrize("kind", BAD_COUNTS)
def test_what_no_record_can_hold_is_refused_where_it_is_made(run, written, kind):
    value, says = BAD_COUNTS[kind]
    with pytest.raises(ValueError, match=says):
        run.count("n", value, unit="rows", subject="s")
    assert written == []


@pytest.mark.parametrize("size", [None, [1], "", float("inf")])
def test_a_size_that_names_nothing_is_refused(run, size):
    with pytest.raises(ValueError, match="size mode"):
        run.count("n", 1, unit="rows", subject="s", mode=size)


def test_a_unit_that_is_no_word_is_refused(run):
    with pytest.raises(ValueError, match="n of 's'"):
        run.count("n", 1, unit=5, subject="s")


def test_the_same_fact_twice_is_refused(run):
    run.count("n", 1, unit="rows", subject="s", rows=1)
    run.count("n", 1, unit="rows", subject="s", rows=2)
    with pytest.raises(ValueError, match="was measured before; name a size that tells"):
        run.count("n", 2, unit="rows", subject="s", rows=1)


BAD_ARGUMENTS = [
    ({"baseline": "c"}, "must be a subject"),
    ({"cache": "lukewarm"}, "cold or warm"),
    ({"samples": 0}, "samples=0 must be 1 to 100"),
    ({"samples": 101}, "samples=101"),
]


@pytest.mark.parametrize(("options", "says"), BAD_ARGUMENTS)
def test_a_bad_argument_is_said_before_anything_runs(run, written, numbers, options, says):
    with pytest.raises(ValueError, match=says):
        run.compare({"a": double}, reference, numbers, n=1, **options)
    assert written == []


def test_no_subject_is_no_comparison(run, numbers):
    with pytest.raises(ValueError, match="must be a subject"):
        run.compare({}, reference, numbers, n=1)


def test_inputs_that_hide_tensors_in_a_list_are_refused(run):
    with pytest.raises(ValueError, match="input 1 is a list; pass its tensors one by one"):
        run.compare(
            {"a": lambda x, _: x}, lambda x, _: x,
            lambda _: (torch.ones(2), [torch.ones(2)]), n=1,
        )  # fmt: skip


def test_inputs_whose_shape_depends_on_the_seed_are_refused(run):
    with pytest.raises(ValueError, match="input 0 changes its shape or dtype with the seed"):
        run.compare({"a": double}, reference, torch.ones, n=1)


def test_constants_that_depend_on_the_seed_are_refused(run):
    with pytest.raises(ValueError, match="input 1 changes with the seed and is no tensor"):
        run.compare(
            {"a": lambda x, k: x * k}, lambda x, k: x.double() * k,
            lambda seed: (torch.ones(2), seed), n=1,
        )  # fmt: skip


def test_a_reference_that_works_in_place_leaves_the_cases_alone(run, written, numbers):
    run.compare({"a": double}, lambda x: x.mul_(2).double(), numbers, samples=2, n=1000)
    assert written.failure("a") is None


def test_an_empty_reference_proves_nothing(run):
    with pytest.raises(Wrong, match="empty"):
        run.compare({"a": double}, reference, lambda _: torch.ones(0), n=0)


def test_reasons_name_no_place_or_person(run, written, numbers, monkeypatch):
    monkeypatch.setenv("USER", "secretuser")
    monkeypatch.setenv("LOGNAME", "secretuser")

    def raises(_):
        raise OSError("secretuser@host.example: /home/secretuser/x/lib.so at 10.1.2.3 \udcff\nmore")

    run.compare({"a": raises}, reference, numbers, n=1000)
    reason = written.failure("a")
    assert "lib.so" in reason
    for private in ("secretuser", "/home", "10.1.2.3", "host.example"):
        assert private not in reason
    reason.encode("utf-8")
