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
    ({"baseline": "c"}, "'c' is no subject; use one of: a"),
    ({"cache": "lukewarm"}, "neither cold nor warm"),
    ({"samples": 0}, "samples=0 must be 1 to 100"),
    ({"samples": 101}, "samples=101"),
]


@pytest.mark.parametrize(("options", "says"), BAD_ARGUMENTS)
def test_a_bad_argument_is_said_before_anything_runs(run, written, numbers, options, says):
    with pytest.raises(ValueError, match=says):
        run.compare({"a": double}, reference, numbers, n=1, **options)
    assert written == []


def test_no_subject_is_no_comparison(run, numbers):
    with pytest.raises(ValueError, match="nothing to compare"):
        run.compare({}, reference, numbers, n=1)


def test_inputs_that_hide_tensors_in_a_list_are_refused(run):
    with pytest.raises(
        ValueError, match="input 1 is a list with tensors inside; pass its tensors one by one"
    ):
        run.compare(
            {"a": lambda x, _: x}, lambda x, _: x,
            lambda _: (torch.ones(2), [torch.ones(2)]), n=1,
        )  # fmt: skip


def test_inputs_whose_shape_depends_on_the_seed_are_refused(run):
    with pytest.raises(
        ValueError, match="input 0 changes its shape, dtype or strides with the seed"
    ):
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


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_strides_are_the_authors_so_that_a_kernel_that_ignores_them_is_wrong(run, written):
    def ignores_strides(x):
        flat = torch.empty(0).set_(x.untyped_storage())
        return flat[: x.numel()].view(x.shape) * 2

    subjects = {"honest": double, "ignores": ignores_strides}
    run.compare(subjects, reference, lambda seed: drawn(seed, 4, 8)[:, :5], samples=2, n=1)
    assert written.failure("honest") is None
    assert "exceeds the tolerance" in written.failure("ignores")


def test_inputs_that_share_memory_share_it_still(run, written):
    def both(seed):
        x = drawn(seed, 6)
        return x, x[2:]

    seen = []
    subject = lambda x, y: seen.append(y.data_ptr() - x.data_ptr()) or x.sum() + y.sum()  # noqa: E731
    run.compare({"a": subject}, lambda x, y: x.double().sum() + y.double().sum(), both, n=1)
    assert set(seen) == {8}
    assert written.failure("a") is None


FORMS = {
    "expanded": lambda seed: drawn(seed, 4, 1).expand(4, 3),
    "transposed": lambda seed: drawn(seed, 4, 3).t(),
    "no dimension": lambda seed: drawn(seed, 1)[0],
    "conjugate": lambda seed: torch.complex(drawn(seed, 3), drawn(seed + 1, 3)).conj(),
    "bfloat16": lambda seed: drawn(seed, 5).bfloat16(),
    "int64": lambda seed: torch.arange(5) + seed,
    "with grad": lambda seed: drawn(seed, 5).requires_grad_(),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_honest_kernel_is_right_on_inputs_of_every_form(run, written, form):
    def exact(x):
        return x.detach() * 2

    run.compare({"a": lambda x: x * 2}, exact, FORMS[form], samples=2, tolerance=1e-2, n=1)
    assert written.failure("a") is None
    assert written.metric("latency", "a")


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.uint16, torch.bool])
def test_a_reference_of_a_rare_dtype_can_be_met(run, written, dtype):
    def cast(x):
        return (x.abs() * 3).to(dtype)

    run.compare({"a": cast}, cast, lambda seed: drawn(seed, 64), exact=True, samples=2, n=1)
    assert written.failure("a") is None


def test_what_one_subject_does_to_a_tensor_does_not_reach_the_next(run, written, numbers):
    def rude(x):
        out = x * 2
        x.unsqueeze_(0)
        x.requires_grad_()
        return out

    run.compare({"rude": rude, "honest": double}, reference, numbers, samples=2, n=1000)
    assert written.failure("honest") is None
    assert written.failure("rude") is None


def test_a_sparse_input_is_refused_once_with_a_remedy(run):
    with pytest.raises(ValueError, match=r"input 0 is torch\.sparse_coo; pass its parts"):
        run.compare({"a": double}, reference, lambda _: torch.eye(3).to_sparse(), n=1)


def test_constants_of_any_kind_are_compared_and_not_copied(run, written):
    def constant(seed):
        return drawn(seed, 3), (1, 2), float("nan"), np.arange(3), None, torch.float32, len

    run.compare({"a": lambda x, *_: x * 2}, lambda x, *_: x.double() * 2, constant, n=1)
    assert written.failure("a") is None


def test_one_output_of_zeros_beside_others_is_an_answer(run, written):
    def best(x):
        return x.amax(), torch.zeros(2)

    run.compare({"a": best}, best, lambda seed: drawn(seed, 3), samples=1, n=1)
    assert written.failure("a") is None


def test_a_first_call_that_compiles_is_not_poisoned(run, written, numbers):
    kept = []

    def lazy(x):
        if not kept:
            kept.append(torch.empty_like(x))
            assert not torch.isnan(kept[0].fill_(0)).any()
        return x * 2

    run.compare({"a": lazy}, reference, numbers, samples=1, n=1000)
    assert written.failure("a") is None


def test_an_out_argument_keeps_its_neighbours_under_poison():
    from warplog.measure import poisoned

    whole = torch.zeros(8)
    with poisoned():
        torch.empty(4, out=whole[:4])
    assert not torch.isnan(whole[4:]).any()


@pytest.mark.parametrize(
    ("amount", "says"),
    [({"b": 1}, "'b' is no subject; use a"), (-1, "-1 is not above zero"), ("x", "not a finite")],
)
def test_amounts_are_checked_before_anything_runs(run, written, numbers, amount, says):
    with pytest.raises(ValueError, match=says):
        run.compare({"a": double}, reference, numbers, traffic=amount, n=1)
    assert written == []


def test_amounts_may_be_numpy_or_torch_scalars(run, written, numbers):
    amounts = {"traffic": np.int64(8000), "work": torch.tensor(3.0)}
    run.compare({"a": double}, reference, numbers, samples=1, n=1000, **amounts)
    latency = written.metric("latency", "a")
    assert (latency["traffic"], latency["work"]) == (8000, 3.0)


def test_comparing_again_on_the_same_workload_is_refused_before_it_runs(run, numbers):
    run.compare({"a": double}, reference, numbers, samples=1, n=1000)
    with pytest.raises(ValueError, match="compare all subjects at once"):
        run.compare({"a": pytest.fail}, reference, numbers, cache="warm", n=1000)


def test_an_array_is_counted_as_its_samples(run, written):
    run.count("n", np.arange(3), unit="rows", subject="s")
    run.count("m", torch.arange(2), unit="rows", subject="s")
    assert written.metric("n", "s")["runs"] == [[0, 1, 2]]
    assert written.metric("m", "s")["runs"] == [[0, 1]]


UNSOUND = [
    {"subject": "x\udce9"},
    {"value": 1e301},
    {"sizes": {"top k": 3}},
]


@pytest.mark.parametrize("change", UNSOUND)
def test_what_could_not_be_published_is_refused_when_it_is_made(run, written, change):
    value, subject = change.get("value", 1), change.get("subject", "s")
    with pytest.raises(ValueError, match=r"of|beyond|key"):
        run.count("n", value, unit="rows", subject=subject, **change.get("sizes", {}))
    assert written == []


def test_a_process_without_a_name_for_its_user_can_still_say_what_was_wrong(
    run, written, numbers, monkeypatch
):
    def nobody():
        raise KeyError("getpwuid(): uid not found: 4242")

    monkeypatch.setattr("getpass.getuser", nobody)
    run.compare({"a": lambda x: x * 3}, reference, numbers, n=1000)
    assert "exceeds the tolerance" in written.failure("a")


def test_without_a_gpu_the_sizes_of_one_are_written_down(run, written):
    """So that a claim about a size that no GPU would get is doubted before one is paid for."""
    assert run.sizes(full=[(4096, "a"), {"rows": 1, "kind": True}], tiny=[(3, "b")]) == [(3, "b")]
    run.sizes(full=[object()], tiny=[2])
    assert [event for event in written if event["event"] == "sizes"] == [
        {"event": "sizes", "full": [[4096, "a"], [1, "true"]], "tiny": [[3, "b"]]},
        {"event": "sizes", "full": None, "tiny": [[2]]},
    ]


def test_a_keyword_of_compare_with_a_wrong_letter_is_no_size(run, written, numbers):
    with pytest.raises(ValueError, match="sampless= is taken as a size, and looks like samples="):
        run.compare({"a": double}, reference, numbers, sampless=3)
    assert written == []
