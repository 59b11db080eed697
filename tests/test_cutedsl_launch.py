"""What is special about cutedsl-launch: the matrix of call forms, what is said in it, and the reduction."""

import json
import subprocess
import sys
import time
from importlib import util
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


def test_the_switch_is_set_for_the_forms_that_are_named_after_it(artifact, monkeypatch):
    matrix, asked = artifact("matrix"), []

    def run(_command, *, env, **_):
        asked.append(env.get("CUTE_DSL_ENABLE_TVM_FFI"))
        told = json.dumps({"version": "1", "right": True, "message": ""})
        return subprocess.CompletedProcess([], 0, f"noise\n{told}\n")

    monkeypatch.delenv("CUTE_DSL_ENABLE_TVM_FFI", raising=False)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(matrix, "places", lambda: {matrix.TODAY: None})
    monkeypatch.setattr(matrix, "AT_ONCE", 1)
    found = matrix.outcomes(["kernel", "switch, views"])
    assert asked == [None, "1"]
    assert found[matrix.TODAY, "kernel"] == matrix.Outcome("1", right=True, message="")


def test_a_cell_whose_process_dies_takes_no_other_down(artifact, monkeypatch):
    matrix = artifact("matrix")

    def run(command, **_):
        if command[-1] == "kernel":
            raise subprocess.CalledProcessError(-11, command)
        told = json.dumps({"version": "1", "right": True, "message": ""})
        return subprocess.CompletedProcess([], 0, told)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(matrix, "places", lambda: {matrix.TODAY: None})
    found = matrix.outcomes(["kernel", "handle"])
    assert "the process ended" in found[matrix.TODAY, "kernel"].message
    assert found[matrix.TODAY, "handle"].right


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
@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("kernel", "launch outside jit"),
        ("kernel, patched", "no expression, today"),
        ("jit, tensors", "tensor for cute.Tensor"),
    ],
)
def test_today_says_what_the_entry_tells_where_no_driver_is_needed(
    artifact, monkeypatch, form, said
):
    matrix = artifact("matrix")
    monkeypatch.setattr(matrix, "places", lambda: {matrix.TODAY: None})
    outcome = matrix.outcomes([form])[matrix.TODAY, form]
    assert not outcome.right
    assert outcome.said == [said], outcome.message


@with_calls
@pytest.mark.parametrize(("weighers", "entries"), [(0, 1), (1, 2), (16, 2)])
def test_the_last_block_needs_no_second_kernel(artifact, monkeypatch, tmp_path, weighers, entries):
    monkeypatch.setenv("CUTE_DSL_ARCH", "sm_90a")
    options = f"--gpu-arch sm_90a --keep-ptx --dump-dir={tmp_path}"
    code = artifact("kernel").function(8, weighers, options).__ptx__
    assert code.count(".visible .entry") == entries
    assert code.count("atom.global.acq_rel") == (weighers == 0)
    assert "ld.local" not in code


@pytest.mark.parametrize(("seconds", "calls"), [(2e-6, 300), (2e-4, 100), (0.05, 3), (9.0, 3)])
def test_a_slow_form_is_called_a_few_times_a_sample(monkeypatch, seconds, calls):
    """A form that traces its function anew takes tens of milliseconds; 300 calls of it, minutes."""
    monkeypatch.setenv("CUTE_DSL_ARCH", "sm_90a")  # which the script would set
    for name in ("cutlass", "cutlass.cute", "cutlass.cute.runtime"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    spec = util.spec_from_file_location("cell_of_fakes", FOLDER / "cell.py")
    cell = util.module_from_spec(spec)
    spec.loader.exec_module(cell)
    assert cell.calls_of(seconds) == calls
    made = []
    assert len(cell._seconds(lambda: made.append(time.sleep(0.01)))) == cell.SAMPLES
    assert len(made) < 10 * (cell.SAMPLES + 1)
