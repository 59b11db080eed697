"""compute-sanitizer over an artifact: the command, what is read from its log, and what counts as clean."""

import sys

import pytest
from factory import Lab
from test_runner import artifact, repository  # noqa: F401 - a fixture
from typer.testing import CliRunner

from warplog import cli, process, runner, sanitizer
from warplog.child import Ended
from warplog.fault import Fault
from warplog.run import Run
from warplog.sanitizer import Finding, examine, judge, read

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
NO_RACE = """========= COMPUTE-SANITIZER
========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)
"""
MEMORY = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at _gather+0x12c0 in /home/someone/artifacts/tiny/kernel.py:122
=========     by thread (18,0,0) in block (0,0,0)
=========     Access to 0x74505bcccca0 is out of bounds
=========     and is 161 bytes after the nearest allocation at 0x74505bccc800 of size 1,024 bytes
=========
========= Invalid __global__ read of size 16 bytes
=========     at _gather+0x12c0 in /home/someone/artifacts/tiny/kernel.py:122
=========     by thread (19,0,0) in block (0,0,0)
=========
========= Invalid __shared__ write of size 4 bytes
=========     at void reduce<float, int>(T1 *, int)+0x70
=========     by thread (0,0,0) in block (1,0,0)
=========
========= Target application returned an error
========= ERROR SUMMARY: 2752 errors
========= ERROR SUMMARY: 2749 errors were not printed. Use --print-limit option to adjust
"""
RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at total(float *, int)+0x580 in rows.cu:25
=========     and Read access at total(float *, int)+0x890 in rows.cu:31 [4080 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
BARRIER = """========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in warp.
=========     at halves(int *)+0xa0 in rows.cu:61
=========     by thread (19,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
"""
OLDER = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at 0xda0 in /opt/someone/layers/fused.py:175:fused_kernel
=========     by thread (96,0,0) in block (44,0,0)
========= ERROR SUMMARY: 1 error
"""
NO_START = """========= COMPUTE-SANITIZER
========= Error: Target application terminated before first instrumented API call
========= Error: couldn't find exit code.
"""
INTERNAL = """========= COMPUTE-SANITIZER
========= Internal Sanitizer Error: Device not supported. Please refer to the documentation
========= ERROR SUMMARY: 1 error
"""
DONE = Ended([{"event": "done"}])
DIED = Ended([], "killed by SIGSEGV", "the last words")

# Does what the tool does, as far as its command line, its log and its exit status go.
FAKE = """#!/bin/sh
for word in "$@"; do
    case "$word" in
        --log-file=*) log="${word#--log-file=}" ;;
        --tool=*) tool="${word#--tool=}" ;;
    esac
done
while [ "${1#-}" != "$1" ]; do shift; done
"$@"
status=$?
cp "$FAKE_LOGS/$tool" "$log"
[ $status -ne 0 ] && exit $status
grep -q "SUMMARY: 0" "$log" || exit 86
"""


@pytest.fixture
def logs(tmp_path, monkeypatch):
    """A compute-sanitizer on the PATH that writes these logs, by tool: nothing found unless changed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "compute-sanitizer").write_text(FAKE)
    (folder / "compute-sanitizer").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_LOGS", str(folder))
    for tool, text in {"memcheck": CLEAN, "racecheck": NO_RACE, "synccheck": CLEAN}.items():
        (folder / tool).write_text(text)
    return folder


@pytest.fixture
def gpu(monkeypatch):
    """A host with one GPU, as far as the parent knows."""
    monkeypatch.setattr(runner, "gpus", lambda: 1)


def look(found, tool="memcheck", *, pooled=False, seconds=60.0):
    return examine(found, tool, runner.Options(1, seconds), pooled=pooled)


def test_a_clean_log_has_a_sum_of_zero():
    assert read(CLEAN) == (0, ())
    assert read(NO_RACE) == (0, ())


def test_a_log_without_a_summary_has_no_sum():
    assert read("")[0] is None
    assert read(NO_START) == (None, ())


def test_alike_findings_stand_together_and_the_sum_is_the_tools():
    """Also where it did not print them all; a kernel's name keeps its template, a place no folder."""
    total, findings = read(MEMORY)
    assert total == 2752
    assert findings == (
        Finding("Invalid __global__ read of size 16 bytes", "_gather", "kernel.py:122", 2),
        Finding("Invalid __shared__ write of size 4 bytes", "void reduce<float, int>(T1 *, int)", "", 1),
    )  # fmt: skip


def test_a_race_and_a_barrier_are_findings():
    assert read(RACE) == (
        1,
        (Finding("Race reported between Write access", "total(float *, int)", "rows.cu:25", 1),),
    )
    kind = "Barrier error detected. Divergent thread(s) in warp"
    assert read(BARRIER) == (1, (Finding(kind, "halves(int *)", "rows.cu:61", 1),))


def test_a_warning_of_a_race_counts():
    log = RACE.replace("Error: Race", "Warning: Race").replace("1 error, 0 w", "0 errors, 1 w")
    total, (finding,) = read(log)
    assert total == 1
    assert finding.kernel == "total(float *, int)"


def test_the_form_of_an_older_tool_is_read():
    (finding,) = read(OLDER)[1]
    assert (finding.kernel, finding.place) == ("fused_kernel", "fused.py:175")


def test_a_finding_reads_as_a_line_without_a_path():
    first, second = map(str, read(MEMORY)[1])
    assert first == "Invalid __global__ read of size 16 bytes in _gather (kernel.py:122): 2"
    assert "/" not in first + second


@pytest.mark.parametrize(
    ("ended", "log", "reason"),
    [
        (DIED, CLEAN, "killed by SIGSEGV"),
        (DONE, "", "wrote no summary: nothing at all"),
        (DONE, NO_START, "terminated before first instrumented API call"),
        (DONE, INTERNAL, "Device not supported"),
    ],
)
def test_what_could_not_be_looked_at_is_not_clean(ended, log, reason):
    """The tool says zero hazards of a script that died at once."""
    found = judge(ended, log)
    assert reason in found.reason
    assert found.total == 0


def test_a_finding_is_a_finding_also_where_it_killed_the_script():
    found = judge(DIED, MEMORY)
    assert (found.total, found.reason) == (2752, None)


def test_the_command_counts_no_failed_call_and_keeps_to_the_script(tmp_path):
    words = sanitizer.command("/x/compute-sanitizer", "racecheck", tmp_path / "log", ["python"])
    assert words[0] == "/x/compute-sanitizer"
    assert words[-1] == "python"
    assert {
        "--tool=racecheck",
        "--error-exitcode=86",
        "--target-processes=application-only",
        "--report-api-errors=no",
    } <= set(words)


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize(
    ("tool", "pooled", "value"),
    [("memcheck", False, "1"), ("memcheck", True, None), ("racecheck", False, None)],
)
def test_memcheck_gives_each_tensor_an_allocation_of_its_own(
    repository,  # noqa: F811 - the fixture
    tool,
    pooled,
    value,
):
    body = f"""
    assert os.environ.get('PYTORCH_NO_CUDA_MEMORY_CACHING') == {value!r}
    run.count("n", 1, unit="calls", subject="s")
    """
    assert look(artifact(repository, body), tool, pooled=pooled).reason is None


@pytest.mark.usefixtures("logs")
def test_sizes_are_tiny_and_nothing_is_timed_though_there_is_a_gpu(repository):  # noqa: F811
    body = """
    run.on_gpu = True
    assert run.sizes(full=[9], tiny=[1]) == [1]
    assert run.tiny
    assert run.launches(lambda: 1 / 0) == []
    run.compare({"s": lambda x: x * 2}, lambda x: x.double() * 2, draw, size=1)
    assert run._timer is None
    """
    assert look(artifact(repository, body)).reason is None


def test_a_run_on_a_gpu_is_tiny_only_where_it_was_asked():
    for tiny in (False, True):
        run = Run(lambda _: None, tiny=tiny)
        assert run.tiny
        run.on_gpu = True
        assert run.tiny is tiny


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "before the script was done"),
        ("raise ValueError('odd')", "ValueError: odd"),
        ("time.sleep(600)", "did not end within 4 s"),
    ],
)
def test_an_artifact_that_breaks_could_not_be_examined(repository, body, reason):  # noqa: F811
    found = look(artifact(repository, f"print('last words', flush=True)\n{body}"), seconds=4.0)
    assert reason in found.reason
    assert "last words" in found.output


@pytest.mark.usefixtures("logs")
def test_a_subject_that_fails_at_a_tiny_size_is_named_and_was_not_examined(repository):  # noqa: F811
    """A kernel that could not be compiled never ran, whatever the tool found in nothing."""
    body = 'run.compare({"zeros": lambda x: x * 0}, lambda x: x.double() * 2, draw, size=1)'
    found = look(artifact(repository, body))
    assert (found.total, found.reason) == (0, "1 failed, so not all was looked at")
    assert found.failed[0].startswith("zeros on size=1: ")


@pytest.mark.usefixtures("logs")
def test_a_script_that_measures_nothing_was_not_examined(repository):  # noqa: F811
    assert "measured nothing" in look(artifact(repository, "pass")).reason


def call(*words):
    return CliRunner().invoke(cli.app, ["sanitize", *words])


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Two artifacts whose scripts count something."""
    lab = Lab(tmp_path / "lab")
    counts = 'def reproduce(run):\n    run.count("n", 1, unit="calls", subject="s")\n'
    for slug in ("one", "two"):
        lab.artifact(slug, reproduce=counts)
    monkeypatch.chdir(lab.root)
    return lab


@pytest.mark.usefixtures("logs", "gpu", "lab")
def test_without_a_name_every_artifact_is_examined_and_clean_is_status_0():
    result = call("--tool", "synccheck")
    assert result.exit_code == 0
    assert result.output == "one: synccheck: nothing found\ntwo: synccheck: nothing found\n"


def test_without_a_tool_it_is_all_three_and_each_once():
    assert sanitizer.tools([]) == ["memcheck", "racecheck", "synccheck"]
    assert sanitizer.tools(["racecheck", "racecheck"]) == ["racecheck"]


@pytest.mark.usefixtures("gpu", "lab")
def test_a_finding_is_status_1_and_says_artifact_tool_kind_kernel_and_count(logs):
    (logs / "racecheck").write_text(RACE)
    result = call("two", "--tool", "memcheck", "--tool", "racecheck")
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "two: memcheck: nothing found",
        "two: racecheck: Race reported between Write access in total(float *, int) (rows.cu:25): 1",
        "two: racecheck: 1 found",
    ]


@pytest.mark.usefixtures("logs", "gpu")
def test_what_could_not_run_is_status_2_and_the_others_go_on(lab):
    lab.artifact("one", reproduce="def reproduce(run):\n    raise ValueError('odd')\n")
    result = call("--tool", "synccheck")
    assert result.exit_code == 2
    assert (
        "one: synccheck: could not run: artifacts/one/reproduce.py:2: ValueError: odd"
        in result.output
    )
    assert "two: synccheck: nothing found" in result.output


@pytest.mark.usefixtures("lab", "gpu")
def test_without_the_tool_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sanitizer, "_ELSEWHERE", ())
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    fault = call().exception
    assert isinstance(fault, Fault)
    assert "no compute-sanitizer here; install it with the CUDA toolkit" in str(fault)


@pytest.mark.usefixtures("lab")
def test_the_tool_is_found_where_the_toolkit_puts_it(monkeypatch, tmp_path, logs):
    home = tmp_path / "cuda"
    home.mkdir()
    (home / "bin").symlink_to(logs)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setenv("CUDA_HOME", str(home))
    assert sanitizer.program() == str(home / "bin" / "compute-sanitizer")


@pytest.mark.usefixtures("lab", "logs")
def test_without_a_gpu_or_with_an_unknown_tool_it_says_so(monkeypatch):
    monkeypatch.setattr(runner, "gpus", lambda: 0)
    assert "there is no GPU 0 here; run it on a machine that has one" in str(call().exception)
    assert "no tool 'memchek'; use memcheck" in str(call("--tool", "memchek").exception)


def test_a_mistake_is_status_2_and_one_line(lab, monkeypatch, capsys):
    monkeypatch.setattr(runner, "gpus", lambda: 0)
    monkeypatch.setattr(sys, "argv", ["warplog", "sanitize", "one"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert lab


def test_the_process_passes_the_switch_on(tmp_path, monkeypatch):
    heard = {}
    monkeypatch.setattr(process, "end_with_parent", lambda: None)
    monkeypatch.setattr(process, "measure", lambda *_, **named: heard.update(named))
    words = [str(tmp_path), "--events", str(tmp_path / "events"), "--seed", "1"]
    process.main([*words, "--tiny"])
    assert heard == {"counting": False, "tiny": True}
    process.main(words)
    assert heard == {"counting": False, "tiny": False}
