"""Reproductions in real processes: what is recorded, and what a fault of each kind costs."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from warplog import runner
from warplog.record import dumps, loads
from warplog.source import Repository
from warplog.store import publish

HEAD = """
import os, signal, sys, time
import torch

def draw(seed):
    return torch.randn(64, generator=torch.Generator().manual_seed(seed))

def good(run, size=64):
    run.compare({"double": lambda x: x * 2}, lambda x: x.double() * 2, draw, size=size)
"""


@pytest.fixture
def repository(tmp_path):
    for name in ("entries", "artifacts"):
        (tmp_path / name).mkdir()
    return Repository(tmp_path)


def artifact(repository, body, slug="tiny"):
    """Write an artifact whose `reproduce(run)` has this body."""
    folder = repository.root / "artifacts" / slug
    folder.mkdir(exist_ok=True)
    script = HEAD + "\ndef reproduce(run):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    (folder / "reproduce.py").write_text(script, encoding="utf-8")
    return repository.artifact(slug)


def reproduce(found, report=lambda _: None, **options):
    aside = found.folder.parents[1] / "aside"
    return runner.reproduce(found, runner.Options(**{"runs": 1, "aside": aside, **options}), report)


def test_every_process_adds_a_run_with_its_own_seed(repository):
    body = 'run.count("seed", run.seed, unit="seed", subject="run")'
    record = reproduce(artifact(repository, body), runs=2).record
    (seeds,) = record.measurements
    assert len(seeds.runs) == 2
    assert seeds.runs[0] != seeds.runs[1]


def test_without_a_gpu_the_error_is_recorded_and_no_time_is(repository):
    record = reproduce(artifact(repository, "good(run)")).record
    assert [each.metric for each in record.measurements] == ["error"]
    assert record.device == "cpu"
    assert record.protocol.timer == "none"
    assert record.environment.variables["TRITON_INTERPRET"] == "1"


def test_progress_names_the_run_and_the_workload(repository):
    heard = []
    reproduce(artifact(repository, "good(run)\ngood(run, size=65)"), heard.append)
    assert [each.workload for each in heard] == [{"size": 64}, {"size": 65}]
    assert (heard[0].run, heard[0].runs) == (1, 1)


FAULTS = {
    "raises": ('raise ValueError("no such size")', "ValueError: no such size"),
    "hangs": ("time.sleep(600)", "did not end within 6 s"),
    "killed": ("os.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV"),
    "out of memory": ("os.kill(os.getpid(), signal.SIGKILL)", "ran out of memory"),
    "exits": ("os._exit(0)", "ended with status 0 before the script was done"),
    "asks to exit": ("sys.exit(5)", "ended with status 5"),
    "misses a package": ("import no_such_package", "ModuleNotFoundError"),
    "two streams": ('good(run, 1)\nraise RuntimeError("late")', "RuntimeError: late"),
    "allocates": ("torch.empty(1 << 60)", "RuntimeError"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_says_its_reason_and_keeps_what_was_measured(repository, kind):
    body, reason = FAULTS[kind]
    found = artifact(repository, f"good(run)\nprint('the last words')\nsys.stdout.flush()\n{body}")
    outcome = reproduce(found, time_limit=6.0)
    assert outcome.record is None
    assert reason in outcome.reason
    assert "the last words" in outcome.output
    kept = json.loads(outcome.kept.read_text("utf-8"))
    assert kept["incomplete"] is True
    assert kept["runs"][0]["measurements"][0]["metric"] == "error"


def test_before_the_first_measurement_there_is_nothing_to_keep(repository):
    outcome = reproduce(artifact(repository, 'raise ValueError("no such size")'))
    assert "ValueError: no such size" in outcome.reason
    assert outcome.kept is None
    assert not (repository.root / "aside").exists()


def test_what_an_earlier_process_measured_is_kept(repository):
    body = """
    import pathlib
    mark = pathlib.Path(__file__).parents[2] / "begun"
    if mark.exists():
        raise ValueError("second")
    mark.touch()
    good(run)
    """
    kept = json.loads(reproduce(artifact(repository, body), runs=2).kept.read_text("utf-8"))
    assert [len(run["measurements"]) for run in kept["runs"]] == [1, 0]


def test_a_subject_that_raises_fails_alone(repository):
    body = """
    def raises(x):
        raise ValueError("odd size")
    run.compare({"a": raises, "b": lambda x: x * 2}, lambda x: x.double() * 2, draw, size=64)
    """
    record = reproduce(artifact(repository, body)).record
    failed = {each.subject: each.failed for each in record.measurements}
    assert failed == {"a": "ValueError: odd size", "b": None}


WRONG = {
    "dtype": ("lambda x: (x * 2).int()", "is torch.int32, not torch.float64"),
    "shape": ("lambda x: x[:3] * 2", "has shape [3], not [64]"),
    "type": ("lambda x: 3.0", "returned float where a plain tensor belongs"),
    "count": ("lambda x: (x * 2, x)", "returned 2 tensors, the reference 1"),
    "in place": ("lambda x: x.mul_(2)", "changed its input 0"),
    "one element": ("lambda x: torch.cat([x[:1], x[1:] * 2])", "exceeds the tolerance"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_output_is_recorded_with_the_reason(repository, kind):
    subject, reason = WRONG[kind]
    body = f'run.compare({{"a": {subject}}}, lambda x: x.double() * 2, draw, size=64)'
    (failed,) = reproduce(artifact(repository, body)).record.measurements
    assert reason in failed.failed
    assert failed.runs is None


def test_a_grandchild_does_not_outlive_its_process(repository, tmp_path):
    body = f"""
    if os.fork() == 0:
        time.sleep(2)
        open({str(tmp_path / "alive")!r}, "w").close()
    """
    assert reproduce(artifact(repository, body)).record is not None
    time.sleep(2.5)
    assert not (tmp_path / "alive").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_reproduction_leaves_records_whole_and_no_process(repository, tmp_path, number):
    found = artifact(repository, "good(run)")
    path = publish(reproduce(found).record, found.records)
    before = path.read_bytes()
    pid = tmp_path / "pid"
    artifact(repository, f"open({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)")
    command = [sys.executable, "-m", "warplog", "reproduce", "tiny", "--out", str(tmp_path)]
    home = {"PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(
        command, cwd=repository.root, env=os.environ | home, stderr=subprocess.PIPE
    ) as parent:
        child = _wait_for_pid(pid)
        parent.send_signal(number)
        parent.wait(20)
        said = parent.stderr.read()
    _wait_for_end(child)
    assert path.read_bytes() == before
    assert list(found.records.rglob("*")) == [path.parent, path]
    assert number == signal.SIGKILL or b"no published record was changed" in said


def _wait_for_pid(path):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.05)
    pytest.fail("the child did not start")


def _wait_for_end(pid):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the child lives on")


def test_a_grandchild_in_a_session_of_its_own_ends_too(repository, tmp_path):
    pid = tmp_path / "pid"
    body = f"""
    import subprocess
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    open({str(pid)!r}, "w").write(str(child.pid))
    """
    assert reproduce(artifact(repository, body)).record is not None
    _wait_for_end(int(pid.read_text()))


def test_a_script_that_cannot_begin_is_told_apart(repository):
    found = artifact(repository, "good(run)")
    script = found.folder / "reproduce.py"
    for text, says in (("def reproduce(run:\n", "SyntaxError"), ("x = 1\n", "defines no function")):
        script.write_text(text, encoding="utf-8")
        outcome = reproduce(found)
        assert not outcome.started
        assert says in outcome.reason
    assert reproduce(artifact(repository, "raise ValueError")).started


def test_a_script_that_touches_its_records_makes_none(repository):
    found = artifact(repository, "good(run)")
    path = publish(reproduce(found).record, found.records)
    artifact(repository, f"good(run)\nos.remove({str(path)!r})")
    outcome = reproduce(found)
    assert outcome.record is None
    assert "the published records (restore them from git) changed" in outcome.reason


def test_another_artifacts_files_are_not_to_be_used(repository):
    artifact(repository, "pass", slug="other")
    outcome = reproduce(artifact(repository, "import other.reproduce"))
    assert "uses artifacts/other/reproduce.py; only artifacts/shared" in outcome.reason


def test_a_data_file_of_shared_is_part_of_the_source(repository):
    shared = repository.root / "artifacts" / "shared"
    shared.mkdir()
    (shared / "sizes.txt").write_text("64\n", encoding="utf-8")
    body = f"good(run, int(open({str(shared / 'sizes.txt')!r}).read()))"
    record = reproduce(artifact(repository, body)).record
    assert "../shared/sizes.txt" in record.source.files


def test_a_shared_module_edited_meanwhile_makes_no_record(repository):
    shared = repository.root / "artifacts" / "shared"
    shared.mkdir()
    used = shared / "used.py"
    used.write_text("value = 64\n", encoding="utf-8")
    body = f"from shared import used\ngood(run)\nopen({str(used)!r}, 'a').write('# more')"
    script = artifact(repository, body)
    text = (script.folder / "reproduce.py").read_text("utf-8")
    moved = text.replace("    from shared import used\n", "")
    (script.folder / "reproduce.py").write_text("from shared import used\n" + moved, "utf-8")
    assert "files of artifacts/shared changed" in reproduce(script).reason


def test_hidden_and_nested_files_count_and_records_do_not(repository):
    found = artifact(repository, "pass")
    for name in ("impl/records/kernel.py", ".impl/k.cu", "records/x/y.json", "__pycache__/z.pyc"):
        path = found.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")
    assert list(found.digests([])) == [".impl/k.cu", "impl/records/kernel.py", "reproduce.py"]


def test_garbage_in_the_events_is_a_fault_with_a_reason(repository):
    body = """
    events = sys.argv[sys.argv.index("--events") + 1]
    open(events, "a").write("no event\\n")
    """
    assert "wrote into its events" in reproduce(artifact(repository, body)).reason


def test_a_commit_that_was_stated_is_not_called_unmodified(repository):
    record = reproduce(artifact(repository, "good(run)"), commit="0123abc").record
    assert (record.source.commit, record.source.modified) == ("0123abc", None)


def test_a_child_that_holds_the_interpreter_ends_with_its_parent(repository, tmp_path):
    pid = tmp_path / "pid"
    body = f"""
    import re
    open({str(pid)!r}, "w").write(str(os.getpid()))
    re.match("(a+)+$", "a" * 60 + "b")
    """
    artifact(repository, body)
    command = [sys.executable, "-m", "warplog", "reproduce", "tiny", "--out", str(tmp_path)]
    home = {"PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(command, cwd=repository.root, env=os.environ | home) as parent:
        child = _wait_for_pid(pid)
        parent.kill()
    _wait_for_end(child)


def test_two_reproductions_at_once_do_not_mix(repository):
    slugs = ["one", "two"]
    found = [
        artifact(repository, f'run.count("n", {number}, unit="n", subject="s")', slug)
        for number, slug in enumerate(slugs)
    ]
    records = {}

    def work(each):
        records[each.slug] = reproduce(each, runs=2).record

    threads = [threading.Thread(target=work, args=(each,)) for each in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, slug in enumerate(slugs):
        assert records[slug].artifact == slug
        assert records[slug].measurements[0].runs == [[number], [number]]


def test_two_publishers_in_one_second_get_two_files(repository):
    found = artifact(repository, "good(run)")
    record = reproduce(found).record
    paths = {publish(record, found.records) for _ in range(2)}
    assert len(paths) == 2
    for path in paths:
        loads(path.read_bytes(), path.name)


def test_the_digest_covers_the_shared_modules_that_were_imported(repository):
    shared = repository.root / "artifacts" / "shared"
    shared.mkdir()
    for name in ("used", "unused"):
        (shared / f"{name}.py").write_text("value = 1\n", encoding="utf-8")
    found = artifact(repository, "from shared import used\ngood(run, used.value)")
    record = reproduce(found).record
    assert list(record.source.files) == ["../shared/used.py", "reproduce.py"]
    assert found.changes(record) == {}
    (shared / "unused.py").write_text("value = 2\n", encoding="utf-8")
    assert found.changes(record) == {}
    (shared / "used.py").write_text("value = 2\n", encoding="utf-8")
    assert list(found.changes(record)) == ["../shared/used.py"]


def test_a_script_changed_while_it_runs_makes_no_record(repository):
    found = artifact(repository, "good(run)")
    extra = found.folder / "extra.py"
    outcome = reproduce(found, lambda _: extra.write_text("x = 1\n", encoding="utf-8"))
    assert outcome.record is None
    assert "changed while it ran" in outcome.reason


def test_nothing_private_enters_a_record(repository, monkeypatch):
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "/home/someone/secret")
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecret")
    text = dumps(reproduce(artifact(repository, "good(run)")).record)
    private = ["someone", "hf_secret", str(repository.root), os.uname().nodename, str(Path.home())]
    assert not [each for each in private if each in text]
    assert '"TRITON_DEFAULT_FP_FUSION": "(set, not shown)"' in text


def test_output_of_any_bytes_is_kept_and_shown(repository):
    body = r"""
    sys.stdout.buffer.write(b"```\x1b[31mred\rback\xff" + b"x" * 70_000 + "é".encode())
    sys.stdout.flush()
    raise ValueError("bad \x1b[2J name")
    """
    outcome = reproduce(artifact(repository, body))
    assert outcome.record is None
    assert "```" in outcome.output
    assert "é" in outcome.output


def test_a_metric_missing_in_one_process_has_failed(repository, tmp_path):
    flag = tmp_path / "flag"
    body = f"""
    good(run)
    if not os.path.exists({str(flag)!r}):
        open({str(flag)!r}, "w").close()
        run.count("once", 1, unit="n", subject="s")
    """
    record = reproduce(artifact(repository, body), runs=2).record
    (once,) = [each for each in record.measurements if each.metric == "once"]
    assert once.failed == "measured in 1 of 2 processes only"


def test_the_harness_adds_little_to_importing_torch(repository):
    empty = artifact(repository, "pass")
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    importing = time.monotonic() - started
    assert reproduce(empty, runs=2).record.seconds / 2 <= importing + 2


FAKE_NCU = """#!/bin/sh
# Runs the program and writes the table that Nsight Compute would have written.
for word in "$@"; do
    case "$word" in --log-file=*) log="${word#--log-file=}" ;; esac
done
while [ "${1#-}" != "$1" ] || [ "${1#regex}" != "$1" ]; do shift; done
"$@" || exit $?
printf '%s\n' '"ID","Range:Push/Pop","bytes.sum"' '"","","Kbyte"' '"0","x:warplog0:y","2"' > "$log"
"""
COUNTED = """
run.on_gpu = True
torch.cuda.synchronize = lambda: None
torch.cuda.nvtx.range_push = torch.cuda.nvtx.range_pop = lambda *_: None
run.count("n", 1, unit="n", subject="s")
run.profile("kernel", lambda: None, counters=["bytes.sum"], rows=3)
"""


def with_ncu(folder, monkeypatch, text):
    """Put a program called ncu in front of everything else."""
    program = folder / "bin" / "ncu"
    program.parent.mkdir()
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def test_counters_are_read_in_one_more_process(repository, tmp_path, monkeypatch):
    with_ncu(tmp_path, monkeypatch, FAKE_NCU)
    outcome = reproduce(artifact(repository, COUNTED), runs=2)
    assert outcome.notes == []
    counted = {each.metric: each for each in outcome.record.measurements}
    assert (counted["bytes.sum"].runs, counted["bytes.sum"].unit) == ([[2000.0]], "B")
    assert counted["bytes.sum"].workload == {"rows": 3}
    assert len(counted["n"].runs) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [("#!/bin/sh\nexit 9\n", "ended with status 9"), (None, "is not installed")],
)
def test_counters_that_cannot_be_read_are_absent_and_said(
    repository, tmp_path, monkeypatch, text, says
):
    if text is None:
        monkeypatch.setattr(runner.shutil, "which", lambda _: None)
    else:
        with_ncu(tmp_path, monkeypatch, text)
    outcome = reproduce(artifact(repository, COUNTED))
    assert [each.metric for each in outcome.record.measurements] == ["n"]
    assert says in outcome.notes[0]


def test_the_second_reproduction_on_a_gpu_waits_for_the_first(repository):
    log = repository.root / "log"
    body = f"""
    open({str(log)!r}, "a").write("in ")
    time.sleep(1)
    open({str(log)!r}, "a").write("out ")
    run.count("gpu", int(os.environ["CUDA_VISIBLE_DEVICES"]), unit="n", subject="s")
    """
    found = [artifact(repository, body, slug) for slug in ("one", "two")]
    records = []
    threads = [
        threading.Thread(target=lambda each=each: records.append(reproduce(each, gpu=7).record))
        for each in found
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.read_text().split() == ["in", "out", "in", "out"]
    assert [record.measurements[0].runs for record in records] == [[[7]], [[7]]]


def test_a_gpu_is_one_of_those_that_this_process_may_use(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, 6")
    assert runner._variables(1)["CUDA_VISIBLE_DEVICES"] == "6"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert runner._variables(1)["CUDA_VISIBLE_DEVICES"] == "1"


def test_chatter_of_an_import_is_no_count_of_gpus(monkeypatch):
    for said, count in (("hello\n2\n", 2), ("", 0), ("warning: 3 things\n", 0)):
        done = subprocess.CompletedProcess([], 0, stdout=said, stderr="")
        monkeypatch.setattr(runner.subprocess, "run", lambda *_, done=done, **__: done)
        assert runner.gpus() == count
