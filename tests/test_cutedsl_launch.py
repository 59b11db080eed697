"""What is special about cutedsl-launch: the matrix of call forms, what is said in it, and the reduction."""

import fcntl
import sys
import time
from importlib import util
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import torch
from borrowed import ARTIFACTS, modules_of

FOLDER = ARTIFACTS / "cutedsl-launch"
ABSENT = "CuTe DSL is not installed: pip install -r artifacts/cutedsl-launch/requirements-gpu.txt"
with_package = pytest.mark.skipif(not util.find_spec("cutlass"), reason=ABSENT)
with_calls = pytest.mark.skipif(
    not all(map(util.find_spec, ("cutlass", "tvm_ffi"))) or torch.cuda.is_available(),
    reason=f"{ABSENT}; and there is a GPU",
)


@pytest.fixture(scope="module")
def artifact():
    """The artifact's modules, taken away afterwards: others are called kernel, too."""
    with modules_of(FOLDER.name) as load:
        yield load


def test_there_are_eighteen_forms_and_each_has_a_name_of_its_own(artifact):
    forms = artifact("matrix").forms()
    assert len(forms) == len(set(forms)) == 18
    assert {"kernel", "kernel, patched", "handle"} <= set(forms)


def test_the_forms_of_the_script_for_tiny_sizes_are_among_them(artifact):
    """They stop before the driver, so that a machine without one can try them."""
    assert {"kernel", "switch without annotations, tensors"} <= set(artifact("matrix").forms())


def test_a_message_is_known_across_its_line_breaks_and_colours(artifact):
    outcome = artifact("matrix").Outcome
    told = "RuntimeError: An MLIR function requires\n   a Context but none was provided in the call"
    assert outcome("4.4.2", right=False, message=told).said == ["no context"]
    assert outcome("4.4.2", right=False, message="something else").said == []
    assert outcome("4.4.2", right=True, message="").said == []


def told_workers(matrix, monkeypatch, answer):
    """Workers whose answers are made up; what they were asked is kept."""
    asked = []

    def ask(version, kind, words):
        asked.append((version, kind, tuple(words)))
        return [answer(word) for word in words]

    monkeypatch.setattr(matrix, "places", lambda: {matrix.TODAY: None})
    workers = MagicMock(ask=ask)
    workers.asked = asked
    return workers


def right(_word):
    return {"answer": {"version": "1", "right": True, "message": ""}}


def test_launches_from_plain_python_and_forms_with_the_switch_have_processes_of_their_own(
    artifact, monkeypatch
):
    matrix = artifact("matrix")
    workers = told_workers(matrix, monkeypatch, right)
    forms = ["kernel", "switch, views", "handle", "kernel, patched"]
    found = matrix.outcomes(workers, forms)
    assert sorted(workers.asked) == [
        ("today", "kernel", ("kernel", "kernel, patched")),
        ("today", "other", ("handle",)),
        ("today", "switch", ("switch, views",)),
    ]
    assert [form for _, form in found] == forms
    assert found[matrix.TODAY, "kernel"] == matrix.Outcome("1", right=True, message="")


def test_the_switch_is_in_the_environment_of_its_own_process(artifact, monkeypatch):
    matrix, name = artifact("matrix"), "CUTE_DSL_ENABLE_TVM_FFI"
    monkeypatch.delenv(name, raising=False)
    assert name not in matrix.variables(None, switch=False)
    assert matrix.variables(None, switch=True)[name] == "1"


def test_a_version_whose_times_are_lost_is_left_out_and_said(artifact, monkeypatch, capsys):
    matrix = artifact("matrix")
    workers = told_workers(matrix, monkeypatch, lambda _: {"ended": "status 1"})
    assert matrix.costs(workers) == {}
    assert "today: no times, the process ended: status 1" in capsys.readouterr().out


WORKER = """
import json, os, signal, sys, time
for line in sys.stdin:
    word = json.loads(line)
    print("asked for", word, file=sys.stderr, flush=True)
    if word == "handle":
        os.kill(os.getpid(), signal.SIGSEGV)
    if word == "jit, views":
        time.sleep(60)
    answer = {"version": str(os.getpid()), "right": True, "message": ""}
    print(json.dumps({"answer": answer}), flush=True)
"""


def test_a_cell_that_ends_its_process_or_hangs_costs_itself_alone(artifact, monkeypatch, tmp_path):
    matrix, cells = artifact("matrix"), tmp_path / "cells.py"
    cells.write_text(WORKER)
    monkeypatch.setattr(matrix, "CELLS", cells)
    monkeypatch.setattr(matrix, "SECONDS", 1.5)
    monkeypatch.setattr(matrix, "places", lambda: {matrix.TODAY: None})
    forms = ["jit, tensors", "handle", "compiled, views", "jit, views", "compiled, tensors"]
    with matrix.Workers() as workers:
        found = {form: outcome for (_, form), outcome in matrix.outcomes(workers, forms).items()}
    assert found["handle"].message.startswith("the process ended: status -11")
    assert "asked for handle" in found["handle"].message
    assert found["jit, views"].message.startswith("the process ended: status -9")
    well = [found[form] for form in ("jit, tensors", "compiled, views", "compiled, tensors")]
    assert all(outcome.right for outcome in well)
    assert len({outcome.version for outcome in well}) == 3  # each in another process


def test_a_version_that_cannot_be_imported_is_an_outcome_of_each_cell(
    artifact, monkeypatch, tmp_path
):
    matrix, cells = artifact("matrix"), tmp_path / "cells.py"
    cells.write_text("import sys; sys.exit('no such module')")
    monkeypatch.setattr(matrix, "CELLS", cells)
    monkeypatch.setattr(matrix, "places", lambda: {matrix.TODAY: None})
    with matrix.Workers() as workers:
        found = matrix.outcomes(workers, ["kernel", "kernel, patched", "handle"])
    assert len(found) == 3
    for outcome in found.values():
        assert not outcome.said
        assert outcome.message == "the process ended: status 1 no such module"


def test_the_reductions_are_made_ready_where_they_run(artifact, monkeypatch):
    """The workers import meanwhile."""
    script, made = artifact("reproduce"), []
    monkeypatch.setattr(script.kernel, "missing", str)
    monkeypatch.setattr(script.kernel, "function", lambda *way: made.append(way))
    run = MagicMock(on_gpu=False)
    script.prepare(run)
    assert not made
    run = MagicMock(on_gpu=True, sizes=lambda *, full, tiny: full if tiny else None)
    script.prepare(run)
    assert set(made) == {(splits, ways) for _, splits in script.SHAPES for ways in script.NAMES}


def test_a_version_that_is_not_installed_is_recorded_and_is_no_crash(
    artifact, monkeypatch, written
):
    from warplog.run import Run

    script = artifact("reproduce")
    monkeypatch.setattr(artifact("matrix"), "places", dict)
    script.reproduce(Run(written.append, seed=3))
    for version in ("CuTe DSL 4.4.2", "CuTe DSL today"):
        assert written.metric("installed", version)["runs"] == [[0]]
    assert written.metric("error", "batched")


def test_the_older_version_is_told_to_its_process_alone(artifact, monkeypatch, tmp_path):
    older = artifact("shared.cutedsl_older")
    monkeypatch.setenv("WARPLOG_CUTEDSL_OLDER", str(tmp_path))
    assert older.environment(None)["WARPLOG_CUTEDSL_FIRST"] == ""
    assert older.environment(tmp_path / "x")["WARPLOG_CUTEDSL_FIRST"] == str(tmp_path / "x")


@pytest.mark.parametrize(
    ("shape", "sums", "weighers", "told"),
    [
        ((2, 4, 16, 512), (2, 4, 2, 16), 3, "weighers=3"),
        ((2, 4, 16, 256), (2, 4, 2, 16), 1, r"given has shape \[2, 4, 16, 256\]"),
        ((2, 4, 16, 512), (2, 4, 16), 1, r"given_sums has shape \[2, 4, 16\]"),
        ((2, 4, 16, 512), (2, 4, 2, 16), 1, "given is on cpu: the kernels need a GPU"),
    ],
)
def test_what_the_reduction_cannot_take_is_refused_with_its_value(
    artifact, shape, sums, weighers, told
):
    with pytest.raises(ValueError, match=told):
        artifact("kernel").reduce_parts(torch.zeros(shape), torch.zeros(sums), weighers=weighers)


def test_the_reference_is_attention_over_all_splits_at_once(artifact):
    """Parts of a softmax, weighed, are the softmax of the whole."""
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(2, 4, 16, 8, generator=generator).double()
    values = torch.randn(2, 4, 8, 512, generator=generator).double()
    most = logits.amax(dim=-1)
    weights = torch.exp2(logits - most[..., None])
    given, sums = weights @ values, torch.stack([most, weights.sum(dim=-1)], dim=2)
    whole = torch.softmax(
        logits.transpose(1, 2).flatten(2) * torch.log(torch.tensor(2.0)).double(), dim=-1
    )
    expected = whole @ values.flatten(1, 2)
    torch.testing.assert_close(artifact("reference").weighed(given, sums), expected)


def test_splits_without_rows_weigh_nothing_and_a_token_without_any_is_zero(artifact):
    script, reference = artifact("reproduce"), artifact("reference")
    given, sums = script.parts(3, 8, 1, torch.device("cpu"))
    assert (sums[:, 0, 0] == -torch.inf).all()
    found = reference.weighed(given, sums)
    assert found.isfinite().all()
    assert not found[-1].any()
    assert found[0].any()
    assert not artifact("kernel").batched(given, sums)[-1].any()


@with_package
def test_today_says_what_the_entry_tells_where_no_driver_is_needed(artifact, monkeypatch):
    matrix = artifact("matrix")
    monkeypatch.setattr(matrix, "places", lambda: {matrix.TODAY: None})
    said = {
        "kernel": "launch outside jit",
        "kernel, patched": "no expression, today",
        "jit, tensors": "tensor for cute.Tensor",
        "switch without annotations, tensors": "tensor without annotation",
    }
    if not util.find_spec("tvm_ffi"):
        del said["switch without annotations, tensors"]
    with matrix.Workers() as workers:
        found = matrix.outcomes(workers, list(said))
    assert {form: outcome.said for (_, form), outcome in found.items()} == {
        form: [name] for form, name in said.items()
    }
    assert not any(outcome.right for outcome in found.values())


@with_calls
@pytest.mark.parametrize(("weighers", "entries"), [(0, 1), (1, 2), (16, 2)])
def test_the_last_block_needs_no_second_kernel(artifact, monkeypatch, tmp_path, weighers, entries):
    monkeypatch.setenv("CUTE_DSL_ARCH", "sm_90a")
    options = f"--keep-ptx --dump-dir={tmp_path}"
    code = artifact("kernel").compiled(8, weighers, options).__ptx__
    assert code.count(".visible .entry") == entries
    assert code.count("atom.global.acq_rel") == (weighers == 0)
    assert "ld.local" not in code


@with_calls
def test_a_function_that_was_compiled_once_is_loaded_by_the_next_process(
    artifact, monkeypatch, tmp_path
):
    kernel = artifact("kernel")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kernel.function.cache_clear()
    kernel.function(2, 16)
    assert kernel.kept(2, 16).is_file()
    kernel.function.cache_clear()
    monkeypatch.setattr(kernel, "compiled", MagicMock(side_effect=AssertionError))
    assert callable(kernel.function(2, 16))
    kernel.function.cache_clear()


def test_an_object_file_that_does_not_load_is_made_again_and_said(
    artifact, monkeypatch, tmp_path, capsys
):
    kernel, path = artifact("kernel"), tmp_path / "one.o"
    path.write_bytes(b"torn")
    made = MagicMock()
    made.export_to_c = lambda where, *, function_name: Path(where).write_text(function_name)
    monkeypatch.setattr(kernel, "kept", lambda *_: path)
    monkeypatch.setattr(kernel, "loaded", MagicMock(side_effect=RuntimeError("no object file")))
    monkeypatch.setattr(kernel, "compiled", lambda *_: made)
    kernel.function.cache_clear()
    assert kernel.function(2, 16) is made
    kernel.function.cache_clear()
    assert path.read_text() == "start"
    assert "one.o: RuntimeError: no object file; compiled again" in capsys.readouterr().out


@pytest.fixture
def cell(monkeypatch):
    """The cell's module, with fakes in place of CuTe DSL."""
    monkeypatch.setenv("CUTE_DSL_ARCH", "sm_90a")  # which the script would set
    for name in ("cutlass", "cutlass.cute", "cutlass.cute.runtime"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    spec = util.spec_from_file_location("cell_of_fakes", FOLDER / "cell.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("seconds", "calls"), [(2e-6, 300), (2e-4, 100), (0.05, 3), (9.0, 3)])
def test_a_slow_form_is_called_a_few_times_a_sample(cell, seconds, calls):
    """A form that traces its function anew takes milliseconds; 300 calls of it, seconds."""
    assert cell.calls_of(seconds) == calls
    made = []
    assert len(cell._seconds(lambda: made.append(time.sleep(0.01)))) == cell.SAMPLES
    assert len(made) < 10 * (cell.SAMPLES + 1)


def test_only_one_version_is_timed_at_a_time(cell, monkeypatch):
    """They are made ready side by side, and a host's time is not taken while another version is timed."""
    held = []

    def seconds(_call):
        with (FOLDER / "cell.py").open("rb") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(True)
        return [1.0]

    monkeypatch.setattr(cell, "_seconds", seconds)
    monkeypatch.setattr(cell.torch.cuda, "current_stream", MagicMock())
    monkeypatch.setattr(cell, "handles", lambda *_: {"handle": lambda: None})
    found = cell.answer("--cost")
    assert found.keys() >= {"handle", "torch.add", "jit, views"}
    assert len(held) == len(found)
