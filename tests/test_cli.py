"""The command line: what it prints, its exit status, and that a mistake is one line."""

import io
import re
import subprocess
import sys
from pathlib import Path

import factory
import pytest
from rich.console import Console
from typer.testing import CliRunner

from warplog import cli, runner
from warplog.fault import Fault
from warplog.record import loads
from warplog.runner import Outcome, Where
from warplog.source import Repository

CPU_SCRIPT = """
import torch

def reproduce(run):
    run.compare(
        {"kernel": lambda x: x.sum(dim=1)}, lambda x: x.double().sum(dim=1),
        lambda seed: torch.randn(4, 9, generator=torch.Generator().manual_seed(seed)), batch=31,
    )
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    made = factory.lab_with_entry(tmp_path / "lab")
    monkeypatch.chdir(made.root)
    return made


@pytest.fixture
def gpu(monkeypatch):
    """A host with one GPU."""
    monkeypatch.setattr(runner, "gpus", lambda: 1)


@pytest.fixture
def measured(lab, monkeypatch):
    """Sets what the next reproductions come to: measurements, or an Outcome."""

    def next_time(found, **changes):
        def reproduce(artifact, options, report):
            report(Where(1, options.runs, {"batch": 31}))
            if isinstance(found, Outcome):
                return found
            return Outcome(factory.record_of(artifact, found, **changes))

        monkeypatch.setattr(runner, "reproduce", reproduce)
        return lab

    return next_time


def call(*words):
    return CliRunner().invoke(cli.app, list(words))


def files(lab):
    return {path: path.read_bytes() for path in lab.root.rglob("records/**/*.json")}


@pytest.mark.usefixtures("lab")
def test_without_a_name_it_lists_what_can_be_reproduced():
    result = call("reproduce")
    assert result.exit_code == 0
    assert "row-sum" in result.output
    assert "One sum is enough" in result.output


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("name", ["row-sum", "one-sum", "entries/2026-12-02-one-sum.md"])
def test_same_numbers_are_status_0_and_change_no_record(measured, name):
    lab = measured(factory.timed(batch=31))
    before = files(lab)
    result = call("reproduce", name)
    assert result.exit_code == 0, result.output
    assert "row-sum: run 1 of 6\n" in result.output
    assert "Same verdict as published: 1 of 1 claims." in result.output
    assert files(lab) == before
    assert len(list(lab.root.glob(".warplog/row-sum/nvidia-h200/*.json"))) == 1


@pytest.mark.usefixtures("gpu")
def test_a_verdict_that_differs_is_status_1(measured):
    slow = [
        each
        if each.subject != "peer"
        else factory.measured(each.metric, "peer", [2e-5] * 6, batch=31)
        for each in factory.timed(batch=31)
    ]
    measured(slow)
    result = call("reproduce", "row-sum")
    assert result.exit_code == 1
    assert "Different from what is published: fast." in result.output


@pytest.mark.usefixtures("gpu")
def test_a_kernel_that_is_wrong_here_is_status_1(measured):
    wrong = factory.measured("latency", "kernel", None, failed="3 elements differ\x1b[2J", batch=31)
    measured([*factory.timed(batch=31)[1:], wrong])
    result = call("reproduce", "row-sum")
    assert result.exit_code == 1
    assert "wrong: kernel on batch=31: 3 elements differ\\x1b[2J" in result.output
    assert "not measured here" in result.output


@pytest.mark.usefixtures("gpu")
def test_a_reproduction_that_broke_says_why_and_keeps_the_records(measured):
    lab = measured(Outcome(None, "process 2 of 6: killed by SIGSEGV", "```\x1b[31m", None))
    before = files(lab)
    result = call("reproduce", "row-sum")
    assert result.exit_code == 1
    assert "row-sum: process 2 of 6: killed by SIGSEGV" in result.output
    assert "\x1b" not in result.output
    assert files(lab) == before


@pytest.mark.usefixtures("gpu")
def test_a_missing_package_is_status_2(measured):
    measured(Outcome(None, "process 1 of 6: No module named 'torch'", started=False))
    assert call("reproduce", "row-sum").exit_code == 2


@pytest.mark.usefixtures("gpu")
def test_publish_adds_one_record(measured):
    lab = measured(factory.timed(batch=31), recorded="2026-12-03T00:00:00Z")
    before = files(lab)
    assert call("reproduce", "row-sum", "--publish").exit_code == 0
    after = files(lab)
    assert len(after) == len(before) + 1
    assert before.items() <= after.items()


@pytest.mark.usefixtures("gpu")
def test_the_first_reproduction_has_nothing_to_differ_from(measured):
    lab = measured(factory.timed(batch=31))
    for path in files(lab):
        path.unlink()
    result = call("reproduce", "row-sum")
    assert result.exit_code == 0
    assert "nothing yet" in result.output


def test_without_a_gpu_it_checks_shows_the_published_and_says_nothing_was_timed(lab):
    for path in files(lab):
        path.unlink()
    lab.publish(lab.artifact(reproduce=CPU_SCRIPT), factory.timed(batch=31))
    result = call("reproduce", "row-sum", "--publish")
    assert result.exit_code == 0, result.output
    for words in (
        "not measured here",
        "nothing was timed and no claim was tested: 1 checks of correctness",
        "passed (kernel).",
        "nox -s serve",
    ):
        assert words in " ".join(result.output.split())
    words = "Nothing is published: without a GPU nothing was timed."
    assert result.output.splitlines()[-1] == words


NAMES = """
claims:
  faster: {says: It is., metric: speedup, subject: kernle, over: peer, at_least: 2}
  right: {says: It is., metric: error, subject: kernel, workload: bacth=31, at_most: 1}
  fewer: {says: It is., metric: launches, subject: kernel on a graph, at_most: 1}
values:
  time: {metric: latency, subject: nothing like it}
"""


def test_names_that_nothing_measures_are_noted_before_a_gpu_is_paid_for(lab):
    """`peer` and `graph` stand in the script, so a GPU may measure what is called so."""
    for path in files(lab):
        path.unlink()
    lab.artifact(reproduce=CPU_SCRIPT + "# launches of a kernel on a graph, and a peer\n")
    lab.entry(factory.FRONT.partition("claims:")[0] + NAMES.lstrip(), "\nNothing.\n")
    result = call("reproduce", "row-sum")
    assert result.exit_code == 0, result.output
    assert [line for line in result.output.splitlines() if line.startswith("note: ")] == [
        "note: claim 'faster': no subject 'kernle'; use kernel",
        "note: claim 'right': no size 'bacth'; use batch",
        "note: value 'time': no subject 'nothing like it'; use one of: kernel",
    ]


@pytest.mark.usefixtures("gpu")
def test_verify_goes_on_after_a_fault_and_ends_with_a_summary(lab, monkeypatch):
    lab.artifact("broken")

    def reproduce(artifact, _options, _report):
        if artifact.slug == "broken":
            return Outcome(None, "process 1 of 6: hung")
        return Outcome(factory.record_of(artifact, factory.timed(batch=31)))

    monkeypatch.setattr(runner, "reproduce", reproduce)
    result = call("verify")
    assert result.exit_code == 1
    assert "differs or wrong" in result.output
    assert "as published" in result.output


MISTAKES = {
    "unknown": (["reproduce", "row-summ"], "no entry or artifact is called 'row-summ'"),
    "outside": (["reproduce", "../../etc"], "no entry or artifact is called '../../etc'"),
    "no commit": (["reproduce", "row-sum", "--commit", "me@host"], "is no commit; give 7 to 64"),
    "few runs": (["reproduce", "row-sum", "--publish", "--runs", "2"], "too few to publish"),
    "no such gpu": (["reproduce", "row-sum", "--gpu", "9"], "there is no GPU 9; use 0 to 0"),
    "a gpu of two places": (
        ["reproduce", "row-sum", "--on", "head:6379", "--gpu", "0"],
        "--gpu: chooses GPU 0 of this host, and --on head:6379 measures on a cluster's; leave one",
    ),
    "fill unknown": (["fill", "nothing"], "no entry or artifact is called 'nothing'"),
}


@pytest.mark.usefixtures("gpu", "lab")
@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_one_line_and_status_2(kind, monkeypatch, capsys):
    words, says = MISTAKES[kind]
    monkeypatch.setattr(sys, "argv", ["warplog", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.strip().splitlines()) == 1


def test_outside_a_checkout_it_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["warplog", "check"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "run it inside a Warplog checkout" in capsys.readouterr().err


def test_fill_writes_the_numbers_and_check_is_then_content(lab, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["warplog", "check"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert "nox -s fill" in capsys.readouterr().err
    result = call("fill")
    assert "filled 2026-12-02-one-sum.md" in result.output
    assert "[12×](#fast)" in lab.root.joinpath("entries/2026-12-02-one-sum.md").read_text("utf-8")
    assert call("fill").output == ""
    assert "1 entries, 1 claims" in call("check").output


def test_schema_is_a_schema():
    assert '"measurements"' in call("schema").output


def test_reading_commands_import_neither_torch_nor_the_measuring_half(lab):
    code = (
        "import sys; from warplog.source import Repository; from warplog.cli import app\n"
        "from warplog.check import check; from pathlib import Path; check(Repository.find(Path('.')))\n"
        "print([n for n in sys.modules if n.split('.')[0] in ('torch', 'triton', 'pynvml')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=lab.root, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(Repository.find(Path(__file__)).root)},
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


@pytest.mark.usefixtures("gpu")
def test_a_stale_record_is_not_called_the_same(measured):
    lab = measured(factory.timed(batch=31))
    (lab.root / "artifacts/row-sum/kernel.py").write_text("changed = 1\n", encoding="utf-8")
    result = call("reproduce", "row-sum")
    assert result.exit_code == 0
    assert "The published record says nothing of this source, so nothing was compared" in (
        " ".join(result.output.split())
    )


@pytest.mark.usefixtures("gpu")
def test_a_claim_whose_subject_vanished_is_named_and_not_called_the_same(measured):
    measured([each for each in factory.timed(batch=31) if each.subject == "peer"])
    result = call("reproduce", "row-sum")
    assert "Could not be tested here: fast." in result.output
    assert "Same" not in result.output


@pytest.mark.usefixtures("gpu")
def test_a_faulty_entry_is_said_and_its_claims_are_not_compared(measured):
    lab = measured(factory.timed(batch=31))
    lab.entry(body="<<<<<<< HEAD\n")
    result = call("reproduce", "row-sum")
    assert "note: entries/2026-12-02-one-sum.md:" in result.stderr
    assert "No claim of an entry to compare with." in result.output


@pytest.mark.usefixtures("gpu")
def test_a_record_that_cannot_be_published_is_kept_and_status_is_2(measured, tmp_path):
    lab = measured(factory.timed(batch=31), recorded="2026-12-03T00:00:00Z")
    records = lab.root / "artifacts/row-sum/records"
    elsewhere = tmp_path / "elsewhere"
    records.rename(elsewhere)
    records.symlink_to(elsewhere)
    result = call("reproduce", "row-sum", "--publish")
    assert result.exit_code == 2
    assert "is a link that leads elsewhere" in result.output
    assert len(list(lab.root.glob(".warplog/row-sum/nvidia-h200/*.json"))) == 1
    assert len(list(elsewhere.rglob("*.json"))) == 1


@pytest.mark.usefixtures("gpu")
def test_a_record_finds_a_place_even_where_out_is_no_folder(measured):
    lab = measured(factory.timed(batch=31))
    (lab.root / ".warplog").write_text("a file", encoding="utf-8")
    result = call("reproduce", "row-sum")
    assert result.exit_code == 0
    path = re.search(r"record \(not published\): (\S+)", result.output)[1]
    assert loads(Path(path).read_bytes(), path).artifact == "row-sum"


@pytest.mark.usefixtures("gpu")
def test_publishing_with_the_clock_set_back_is_refused(measured):
    lab = measured(factory.timed(batch=31), recorded="2026-12-01T00:00:00Z")
    before = files(lab)
    result = call("reproduce", "row-sum", "--publish")
    assert result.exit_code == 2
    assert "set this host's clock" in result.output
    assert files(lab) == before


@pytest.mark.usefixtures("gpu")
def test_one_artifact_that_breaks_our_own_code_does_not_stop_verify(lab, monkeypatch):
    lab.artifact("broken")

    def reproduce(artifact, _options, _report):
        if artifact.slug == "broken":
            raise ZeroDivisionError("ours")
        return Outcome(factory.record_of(artifact, factory.timed(batch=31)))

    monkeypatch.setattr(runner, "reproduce", reproduce)
    result = call("verify")
    assert result.exit_code == 2
    assert "ZeroDivisionError: ours" in result.output
    assert "as published" in result.output


def test_an_exit_from_a_full_disk_is_one_line(lab, monkeypatch, capsys):
    del lab

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cli, "faults_of", full)
    monkeypatch.setattr(sys, "argv", ["warplog", "check"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "No space left on device" in capsys.readouterr().err


def test_fill_of_one_wrong_name_says_so(lab, monkeypatch, capsys):
    del lab
    monkeypatch.setattr(sys, "argv", ["warplog", "fill", "one-sum", "nosuch"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "'nosuch'" in capsys.readouterr().err


@pytest.mark.usefixtures("gpu")
def test_on_a_terminal_the_run_and_the_workload_are_shown_live(measured, monkeypatch):
    measured(factory.timed(batch=31))
    shown = Console(force_terminal=True, width=100, file=io.StringIO(), highlight=False)
    monkeypatch.setattr(cli, "console", lambda: shown)
    call("reproduce", "row-sum")
    assert "row-sum: run 1 of 6: batch=31" in shown.file.getvalue()


def test_verify_without_a_gpu_calls_nothing_as_published(lab):
    for path in files(lab):
        path.unlink()
    lab.artifact(reproduce=CPU_SCRIPT)
    result = call("verify")
    assert result.exit_code == 0
    assert "right, and nothing was timed" in result.output
    assert "as published" not in result.output


def test_an_artifact_that_compares_nothing_is_an_error(lab):
    """Nothing was checked, so nothing was right."""
    lab.artifact(reproduce="def reproduce(run):\n    run.count('n', 1, unit='rows', subject='s')\n")
    result = call("reproduce", "row-sum")
    assert result.exit_code == 2
    assert "artifacts/row-sum/reproduce.py: compared nothing with a reference; call run.com" in (
        " ".join(result.output.split())
    )
    assert "checks of correctness" not in result.output


def test_a_python_without_the_packages_is_told_what_to_install(tmp_path):
    """`-S` hides the installed packages from it."""
    home = str(Repository.find(Path(__file__)).root)
    program = [sys.executable, "-S", "-m", "warplog", "check"]
    done = subprocess.run(
        program, cwd=tmp_path, env={"PYTHONPATH": home}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert re.fullmatch(
        r"warplog: \S+ has no package \w+; run `pip install -e \.` .*\n", done.stderr
    )


def test_a_python_without_torch_is_not_called_one_without_a_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (tmp_path / "python").write_text(
        f'#!/bin/sh\nexec {Path(sys.base_prefix) / "bin/python3"} -S "$@"\n'
    )
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(Fault, match=r"has no package torch; run `pip install -e '\.\[measure\]'`"):
        runner.gpus()


SIZED = CPU_SCRIPT.replace(
    "    run.compare(", "    for batch in run.sizes(full=[31], tiny=[2]): run.compare("
).replace("batch=31", "batch=batch")


def test_a_size_that_no_gpu_would_get_is_noted_without_one(lab):
    for path in files(lab):
        path.unlink()
    lab.artifact(reproduce=SIZED)
    lab.entry(factory.FRONT.replace("batch=31\n    at", "batch=5000\n    at"), "\nNothing.\n")
    found = [line for line in call("reproduce", "row-sum").output.splitlines() if "note: " in line]
    assert "note: claim 'fast': no size batch=5000 is measured; use batch=31" in found
    assert not any("value 'time': no size" in line for line in found)
