"""Hard days: what happens to a reproduction, a publication, a file or a text, and what holds then.

The rule kept here: each count that README states under "When things go wrong" is what these tests counted.
"""

import errno
import fcntl
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unicodedata
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import factory
import hostile
import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from pages import shown
from typer.testing import CliRunner

from warplog import cli, runner, store
from warplog.check import check
from warplog.entry import fill, load
from warplog.evidence import Archive
from warplog.fault import Fault, Faults
from warplog.journal import outcome_of, read_journal
from warplog.page import write
from warplog.record import dumps, loads
from warplog.runner import Outcome
from warplog.source import Repository
from warplog.store import file_name, publish, read

ROOT = Path(__file__).parents[1]
COUNTING = """
def reproduce(run):
    run.count("error", 0, unit="fraction", subject="s")
    for size in range(8):
        run.count("n", 1e15 + run.seed, unit="n", subject="s", size=size)
"""
STATED = re.compile(r"^\| (?P<what>[^|]+?) \| (?P<number>[0-9,]+) \|", re.MULTILINE)


@pytest.fixture
def counted(record_property):
    """A function that keeps how often something was done, which README must state."""
    rows = STATED.findall((ROOT / "README.md").read_text("utf-8"))
    stated = {what: int(number.replace(",", "")) for what, number in rows}

    def count(what, number):
        record_property(what, number)
        assert stated.get(what) == number, f"README states {stated.get(what)} of {what!r}"

    return count


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A checkout with an artifact that counts, and a stand-in for torch that its processes import."""
    for name in ("entries", "artifacts/tiny", "torch/torch", "tmp"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "torch/torch/__init__.py").write_text(hostile.TORCH, encoding="utf-8")
    (tmp_path / "torch/torch/overrides.py").write_text("class TorchFunctionMode: ...\n", "utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(tmp_path / "torch")]))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    script(tmp_path, COUNTING)
    return Repository(tmp_path)


def script(root, text):
    (root / "artifacts/tiny/reproduce.py").write_text(text, encoding="utf-8")


@contextmanager
def command(repository, *words, gpu=0, **options):
    """A running `warplog reproduce tiny`, and the mark that all its processes bear."""
    mark = uuid.uuid4().hex
    variables = {**os.environ, "HARD_DAY": mark, "CUDA_VISIBLE_DEVICES": f"hard-day-{gpu}"}
    program = [sys.executable, "-m", "warplog", "reproduce", "tiny", *words]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(
        program, cwd=repository.root, env=variables, **{**silent, **options}
    ) as process:
        yield process, mark


def alive(mark):
    """The command lines of the processes that bear `mark`, by number."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
    return found


def ended(mark, seconds=10):
    """Whether no process bears `mark` any more, or soon none does."""
    deadline = time.monotonic() + seconds
    while alive(mark) and time.monotonic() < deadline:
        time.sleep(0.005)
    return not alive(mark)


def whole(records):
    """The records under a folder, each of which must be whole, by name."""
    return {path.name: read(path) for path in sorted(records.rglob("*.json"))}


def free(repository, gpu):
    """Whether nobody holds the lock of a GPU of `command`."""
    name = f"warplog-{os.getuid()}-gpu-hard-day-{gpu}.lock"
    with (repository.root / "tmp" / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


def reproduces(repository):
    """Whether a reproduction that nobody disturbs publishes one record more."""
    records = repository.root / "artifacts/tiny/records"
    before = whole(records)
    with command(repository, "--publish") as (process, _):
        assert process.wait(60) == 0
    after = whole(records)
    return before.items() <= after.items() and len(after) == len(before) + 1


# Killed


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_reproduction_killed_at_any_moment_leaves_whole_records_no_lock_and_no_process(
    repository, counted
):
    kills, records = 100, repository.root / "artifacts/tiny/records"
    began = time.monotonic()
    assert reproduces(repository)
    whole_seconds = min(time.monotonic() - began, 2)  # a busy machine would take all day
    first = {path: path.read_bytes() for path in records.rglob("*.json")}

    def kill(number):
        with command(repository, "--publish", gpu=number) as (process, mark):
            time.sleep((number + random.random()) / kills * whole_seconds * 1.1)
            process.kill()
        return ended(mark) and free(repository, number)

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(kill, random.sample(range(kills), kills)))
    assert all(path.read_bytes() == content for path, content in first.items())
    assert len(whole(records)) >= len(first)
    assert reproduces(repository)
    counted("a reproduction is killed at a random moment", kills)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_of_a_reproduction_killed_at_any_moment_costs_that_reproduction_and_says_so(
    repository, counted
):
    kills = 30

    def kill(number):
        with command(repository, "--publish", gpu=number, stdout=subprocess.PIPE) as (
            process,
            mark,
        ):
            time.sleep(random.random() * 0.3)
            hit = _kill_measuring(process, mark)
            said = process.communicate(timeout=60)[0].decode()
        assert ended(mark)
        return hit and process.returncode == 1 and "killed by SIGKILL" in said

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(kill, range(kills)))
    assert not whole(repository.root / "artifacts/tiny/records")
    kept = list(repository.root.glob(".warplog/tiny/*.incomplete.json"))
    assert all(json.loads(path.read_text("utf-8"))["incomplete"] for path in kept)
    assert reproduces(repository)
    counted("one of its processes is killed at a random moment", kills)


def _kill_measuring(process, mark):
    """Kill a measuring process of a command after a moment of its life; False if there was none."""
    while process.poll() is None:
        found = [pid for pid, words in alive(mark).items() if b"warplog.process" in words]
        if found:
            time.sleep(random.random() * 0.05)
            try:
                os.kill(found[0], signal.SIGKILL)
            except ProcessLookupError:
                continue
            return True
    return False


def test_a_host_whose_count_of_gpus_was_killed_is_not_taken_for_one_without(monkeypatch):
    done = subprocess.CompletedProcess([], -signal.SIGKILL, stdout="", stderr="")
    monkeypatch.setattr(runner.subprocess, "run", lambda *_, **__: done)
    with pytest.raises(Fault, match="was killed by signal 9; run it again"):
        runner.gpus()


KILLED_AT_A_CALL = """
import os, signal, sys
from pathlib import Path
from warplog.record import loads
from warplog.store import publish

CALLS = {"mkdir", "open", "write", "flush", "fsync", "replace", "chmod", "rmdir", "close", "fdopen"}
records, record = Path(sys.argv[1]), loads(sys.stdin.buffer.read(), "r.json")

def killed_at(call):
    left = [call]
    def heard(_frame, event, function):
        if event == "c_call" and function.__name__ in CALLS:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
    pid = os.fork()
    if not pid:
        sys.setprofile(heard)
        publish(record, records / str(call))
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status == signal.SIGKILL

call = 1
while killed_at(call):
    call += 1
print(call - 1)
"""


def test_a_publisher_killed_before_any_call_leaves_no_half_record_and_blocks_nobody(
    tmp_path, monkeypatch, record_property
):
    record = _record(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", KILLED_AT_A_CALL, tmp_path],
        input=dumps(record).encode(), capture_output=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    calls = int(done.stdout)
    monkeypatch.setattr(store, "time", _fast_clock(monkeypatch))
    for call in range(1, calls + 1):
        folder = tmp_path / str(call)
        before = whole(folder)
        assert len(before) <= 1
        second = publish(record, folder)
        assert set(whole(folder)) == {*before, second.name}
    record_property("a publisher is killed before a call", calls)


def test_what_a_killed_publisher_left_is_swept_by_a_later_one(tmp_path):
    record = _record(tmp_path)
    folder = tmp_path / record.device
    (folder / ".old.json.claim").mkdir(parents=True)
    for name in (".old.part", ".new.part"):
        (folder / name).write_text("{", encoding="utf-8")
    long_ago = time.time() - 3600
    for name in (".old.json.claim", ".old.part"):
        os.utime(folder / name, (long_ago, long_ago))
    path = publish(record, tmp_path)
    assert sorted(each.name for each in folder.iterdir()) == [".new.part", path.name]


def _record(tmp_path, **changes):
    artifact = factory.Lab(tmp_path / "lab").artifact()
    return factory.record_of(artifact, factory.timed(batch=31), **changes)


def _fast_clock(monkeypatch, speed=500):
    """Stand in for the time of the store: a clock that runs `speed` times as fast as the host's."""
    began = time.monotonic()

    def now():
        seconds = 1_796_342_400 + (time.monotonic() - began) * speed  # 2026-12-04 and later
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))

    monkeypatch.setattr(store, "utc_now", now)
    sleep = time.sleep
    return SimpleNamespace(sleep=lambda seconds: sleep(seconds / speed), time=time.time)


# Disk full, read-only

WRITES = {"mkdir", "open", "write", "flush", "fsync", "replace", "chmod", "fdopen", "rmdir"}


@contextmanager
def failing_at(call, number):
    """Let the writing call number `call` from here on fail, if there are that many; gives how many are
    left to come.
    """
    left = [call]

    def heard(_frame, event, function):
        if event == "c_call" and function.__name__ in WRITES:
            left[0] -= 1
            if not left[0]:
                raise OSError(number, os.strerror(number))

    sys.setprofile(heard)
    try:
        yield left
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS], ids=["disk full", "read-only"])
def test_a_write_of_the_store_that_fails_leaves_no_half_record_and_the_next_one_works(
    tmp_path, record_property, number
):
    record = _record(tmp_path)
    calls, left = 0, [0]
    while left[0] <= 0:
        calls += 1
        folder = tmp_path / str(calls)
        folder.mkdir()
        try:
            with failing_at(calls, number) as left:
                publish(record, folder)
        except OSError:
            assert not [path for path in folder.rglob("*") if path.is_file()]
            publish(record, folder)
        assert len(whole(folder)) == 1
    record_property(f"a write of the store fails: {os.strerror(number)}", calls - 1)


@pytest.mark.parametrize("old", [None, "old"])
def test_a_failing_write_of_an_entry_leaves_the_old_text_or_the_new_one(tmp_path, old):
    path, left, call = tmp_path / "x.md", [0], 0
    while left[0] <= 0:
        call += 1
        path.unlink(missing_ok=True)
        if old is not None:
            path.write_text(old, encoding="utf-8")
        try:
            with failing_at(call, errno.ENOSPC) as left:
                store.write_whole(path, "new")
        except OSError:
            assert (path.read_text("utf-8") if path.exists() else None) == old
        else:
            assert path.read_text("utf-8") == "new"
        assert {each.name for each in tmp_path.iterdir()} <= {"x.md"}


def limited(size):
    """Let no file of a process grow beyond `size` bytes."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_a_disk_that_is_full_while_measuring_is_named_and_leaves_nothing(repository):
    with command(repository, "--publish", stdout=subprocess.PIPE, preexec_fn=limited(400)) as (
        process,
        mark,
    ):
        said = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 1
    assert "tiny: process 1 of 6: could not write down what it measured: is the disk full?" in said
    assert ended(mark)
    assert not whole(repository.root / "artifacts/tiny/records")
    assert reproduces(repository)


def test_a_record_that_fits_on_no_disk_is_printed_whole(repository):
    with command(repository, "--publish", stdout=subprocess.PIPE, preexec_fn=limited(2200)) as (
        process,
        _,
    ):
        said = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 2
    assert "not published: [Errno 27] File too large" in said
    name = re.search(r"save the lines below as test-gpu/(.*)\):\n", said)[1]
    text = said[said.index("{") : said.rindex("}") + 1]
    assert file_name(loads(text.encode(), "said").recorded) == name
    assert not whole(repository.root)
    assert reproduces(repository)


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    """A function that lets no call write below some folders; root's permissions do not bind root."""

    def refuse(*folders):
        def guard(function):
            def guarded(path, *words, **named):
                writes = function is not os.open or words[0] & (os.O_WRONLY | os.O_RDWR)
                below = any(Path(path).absolute().is_relative_to(each) for each in folders)
                if writes and below and not (function is os.mkdir and Path(path).is_dir()):
                    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
                return function(path, *words, **named)

            return guarded

        for name in ("open", "mkdir", "replace", "rename"):
            monkeypatch.setattr(os, name, guard(getattr(os, name)))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return refuse


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """A checkout on a host with a GPU, where every reproduction makes a record at once."""
    lab = factory.lab_with_entry(tmp_path / "lab")
    monkeypatch.chdir(lab.root)
    monkeypatch.setattr(runner, "gpus", lambda: 1)

    def reproduce(artifact, _options, _report):
        found = factory.timed(batch=31)
        return Outcome(factory.record_of(artifact, found, recorded="2026-12-03T00:00:00Z"))

    monkeypatch.setattr(runner, "reproduce", reproduce)
    return lab


def call(*words):
    return CliRunner().invoke(cli.app, list(words))


@pytest.mark.parametrize("words", [["--publish"], []], ids=["publish", "aside"])
def test_a_read_only_checkout_keeps_the_record_elsewhere_and_says_where(measured, read_only, words):
    before = whole(measured.root)
    read_only(measured.root)
    result = call("reproduce", "row-sum", *words)
    assert result.exit_code == (2 if words else 0)
    assert "Read-only file system" in result.output
    place = re.search(r"record \(not published\): (.*)\n", result.output)[1]
    assert read(Path(place)).recorded == "2026-12-03T00:00:00Z"
    assert whole(measured.root) == before


def test_where_nothing_can_be_written_at_all_the_record_is_printed(measured, read_only, tmp_path):
    read_only(measured.root, tmp_path / "temporary")
    result = call("reproduce", "row-sum", "--publish")
    assert result.exit_code == 2
    text = result.output[result.output.index("{") : result.output.rindex("}\n") + 1]
    assert loads(text.encode(), "said").recorded == "2026-12-03T00:00:00Z"


def test_reading_commands_need_to_write_nothing(measured, read_only):
    call("fill")
    read_only(measured.root)
    assert call("check").exit_code == 0
    assert call("fill").exit_code == 0


def test_filling_a_read_only_checkout_says_what_to_do(measured, read_only, monkeypatch, capsys):
    read_only(measured.root)
    monkeypatch.setattr(sys, "argv", ["warplog", "fill"])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "Read-only file system" in said
    assert "run it in a checkout that you may write to" in said
    assert said.count("\n") == 1


# The clock


def test_after_a_clock_set_back_no_record_is_replaced_and_names_keep_their_order(
    tmp_path, monkeypatch
):
    record = _record(tmp_path)

    def at(now):
        monkeypatch.setattr(store, "utc_now", lambda: now)
        return publish(msgspec.structs.replace(record, recorded=now), tmp_path / "records")

    first = at("2026-12-02T10:00:00Z")
    kept = first.read_bytes()
    for back in ("2026-12-02T09:59:59Z", "2025-01-01T00:00:00Z", "1970-01-01T00:00:00Z"):
        with pytest.raises(Fault, match="set this host's clock, then publish again"):
            at(back)
    second = at("2026-12-02T10:00:01Z")
    assert first.read_bytes() == kept
    assert list(whole(tmp_path / "records")) == [first.name, second.name]


def test_a_clock_set_back_between_measuring_and_publishing_is_named_and_the_record_kept(
    measured, monkeypatch, tmp_path
):
    measured.publish(measured.artifact(), factory.timed(batch=31), recorded="2027-01-01T00:00:00Z")
    before = whole(measured.root)
    monkeypatch.setattr(store, "utc_now", lambda: "2026-12-03T00:00:01Z")
    result = call("reproduce", "row-sum", "--publish", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "set this host's clock, then publish again" in result.output
    assert len(whole(tmp_path / "out")) == 1
    assert whole(measured.root) == before


# Two publishers

PUBLISHER = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
import msgspec
from warplog import store
from warplog.record import loads

folder, who, rounds, began, speed = sys.argv[1:]
record = loads(sys.stdin.buffer.read(), "r.json")
sleep = time.sleep

def now():
    seconds = 1_796_342_400 + (time.monotonic() - float(began)) * float(speed)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))

store.utc_now = now
store.time = SimpleNamespace(sleep=lambda seconds: sleep(seconds / float(speed)), time=time.time)
for number in range(int(rounds)):
    new = msgspec.structs.replace(record, recorded=now(), disturbed=[f"{who} {number}"])
    store.publish(new, Path(folder))
"""


def test_two_publishers_at_once_both_get_every_record_filed_whole(tmp_path, counted):
    rounds, text = 50, dumps(_record(tmp_path)).encode()
    began, speed = str(time.monotonic()), "100"
    program = [sys.executable, "-c", PUBLISHER, str(tmp_path / "records")]
    publishers = []
    for who in ("one", "two"):
        process = subprocess.Popen(
            [*program, who, str(rounds), began, speed],
            stdin=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        publishers.append(process)
    for process in publishers:
        process.stdin.write(text)
        process.stdin.close()
    assert [process.wait(60) for process in publishers] == [0, 0]
    found = whole(tmp_path / "records")
    filed = sorted(line for record in found.values() for line in record.disturbed)
    assert filed == sorted(f"{who} {number}" for who in ("one", "two") for number in range(rounds))
    assert [file_name(record.recorded) for record in found.values()] == list(found)
    names = [path.name for path in (tmp_path / "records" / "nvidia-h200").iterdir()]
    assert sorted(names) == sorted(found)
    counted("two publish at once", rounds)


# Children that do not want to end

DAEMON = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)

def reproduce(run):
    run.count("error", 0, unit="fraction", subject="s")
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.chdir("/")
        {daemon}
        time.sleep(300)
    open({begun!r}, "w").close()
    {then}
"""
DAEMONS = {
    "sleeps": "pass",
    "closes all it has open": "os.closerange(0, 1000)",
    "becomes another program": "os.execvp('sleep', ['sleep', '300'])",
    "holds its interpreter": "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
    "has heirs": "[(time.sleep(0.02), os.fork() and os._exit(0)) for _ in range(10_000)]",
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("daemon", "end"),
    [("sleeps", "done"), *((each, end) for each in DAEMONS for end in ("hangs", "command killed"))],
)
def test_a_script_that_forks_a_daemon_deaf_to_sigterm_leaves_none_behind(repository, daemon, end):
    then = "pass" if end == "done" else "time.sleep(300)"
    begun = repository.root / "begun"
    script(repository.root, DAEMON.format(daemon=DAEMONS[daemon], then=then, begun=str(begun)))
    with command(repository, "--time-limit", "1", "--runs", "1", stdout=subprocess.PIPE) as (
        process,
        mark,
    ):
        if end == "command killed":
            while not begun.exists():
                assert process.poll() is None
                time.sleep(0.005)
            process.kill()
        said = process.communicate(timeout=60)[0].decode()
    assert ended(mark)
    expected = {"done": 0, "hangs": 1, "command killed": -signal.SIGKILL}
    assert process.returncode == expected[end], said
    assert (end == "hangs") == ("did not end within 1 s" in said)


# A thousand records


def test_a_thousand_records_of_one_artifact_are_checked_filled_and_shown_in_seconds(
    tmp_path, counted
):
    count, lab = 1000, factory.lab_with_entry(tmp_path / "lab")
    artifact = lab.artifact()
    for number in range(count - 1):
        recorded = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_796_342_400 + number * 61))
        found = factory.timed(batch=31) if number % 2 else _slow()
        record = factory.record_of(artifact, found, recorded=recorded)
        store.write_whole(artifact.records / record.device / file_name(recorded), dumps(record))
    taken = {}

    def within(seconds, name, work):
        before = time.process_time()
        result = work()
        taken[name] = time.process_time() - before
        assert taken[name] < seconds, taken
        return result

    entry = lab.root / "entries/2026-12-02-one-sum.md"
    within(4, "check", lambda: check(lab.repository))
    filled = within(4, "fill", lambda: fill(load(entry, lab.repository), lab.repository))
    assert "](#fast)" in filled
    text = within(6, "page with history", lambda: shown(lab))
    assert f"{count} records" in text
    later = {"recorded": "2027-01-01T00:00:00Z"}
    within(4, "publish", lambda: lab.publish(artifact, _slow(), **later))
    counted("records of one artifact on one device", count)


def _slow():
    return [
        factory.measured("latency", subject, [1e-4] * 6, batch=31) for subject in ("kernel", "peer")
    ]


# Texts that no one would write


def fuzz(cases, strategy, judge):
    """Give `judge` that many cases; none may take long, and what it raises has its case printed."""
    done = 0

    @settings(max_examples=cases, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def one(case):
        nonlocal done
        done += 1
        before = time.process_time()
        judge(case)
        assert time.process_time() - before < 5

    one()
    assert done >= cases


def clear(fault, place):
    """Whether a fault is one legible line that opens with its place and ends with a remedy."""
    assert fault.place.partition(":")[0] == place, fault.place
    assert fault.problem.strip()
    assert fault.remedy.strip()
    seen = (each.isprintable() or unicodedata.category(each) == "Zs" for each in str(fault))
    assert all(seen), str(fault)
    assert len(str(fault)) < 3500


@pytest.fixture
def judge_entry(tmp_path):
    """A function that reads an entry's bytes and writes its page, unless a clear fault is found."""
    lab = factory.lab_with_entry(tmp_path / "lab")
    archive = Archive(lab.repository)
    path = lab.root / "entries/2026-12-02-one-sum.md"

    def judge(content):
        path.write_bytes(content)
        try:
            entry = load(path, lab.repository, archive)
            write(outcome_of(entry, archive.of(entry.artifact)))
        except Faults as wrong:
            found = wrong.faults
        except Fault as fault:
            found = [fault]
        else:
            return
        assert found
        for each in found:
            clear(each, f"entries/{path.name}")

    return judge


BODY = """
We asked whether [?](#fast) holds, in [?](#time), see [below](#what-we-did).

## What we did

```figure
kind: lines
metric: latency
axis: batch
subjects: [kernel, peer]
title: Time by batch
```

| a | b |
| --- | --- |
| [?](#time) | `code` |

```source
file: kernel.py
region: kernel
```
"""
ENTRY = f"---\n{factory.FRONT}---\n{BODY}".encode()


def test_an_entry_with_bytes_edited_parses_or_gives_clear_faults(judge_entry, counted):
    judge_entry(ENTRY)
    fuzz(4000, hostile.edited(ENTRY), judge_entry)
    counted("an entry's bytes are edited", 4000)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"artifact: row-sum", b"artifact: " + b"a" * 300),
        (b"artifact: row-sum", b"artifact: '" + b"9" * 5000 + b"'"),
        (b"file: kernel.py", b"file: " + b"k" * 300),
        (b"file: kernel.py", b"file: " + "é".encode() * 200),
        (b"file: kernel.py", b"file: " + b"k/" * 3000 + b"k.py"),
    ],
)
def test_a_name_longer_than_a_file_can_have_is_a_clear_fault(judge_entry, old, new):
    assert old in ENTRY
    judge_entry(ENTRY.replace(old, new))


def test_front_matter_with_values_changed_parses_or_gives_clear_faults(judge_entry, counted):
    front = yaml.safe_load(factory.FRONT.replace("2026-12-02", "'2026-12-02'"))
    front["claims"]["fast"] |= {
        "cause": "why", "mean": "geometric", "reported": {"value": 2, "device": "x", "by": "y"},
    }  # fmt: skip
    texts = hostile.changed(front).map(
        lambda found: f"---\n{yaml.safe_dump(found)}---\n{BODY}".encode()
    )
    fuzz(1000, texts, judge_entry)
    counted("a value of its front matter is changed", 1000)


def test_a_record_with_bytes_edited_parses_or_gives_one_clear_fault(tmp_path, counted):
    text = dumps(_record(tmp_path)).encode()

    def judge(content):
        try:
            loads(content, "r.json")
        except Fault as fault:
            clear(fault, "r.json")

    fuzz(3500, hostile.edited(text), judge)
    counted("a record's bytes are edited", 3500)


def test_a_record_that_is_nested_too_deep_and_no_text_is_one_clear_fault():
    with pytest.raises(Fault, match="not strict JSON") as caught:
        loads(b'{"schema": "\x80", "more": ' + b"[" * 3000, "r.json")
    clear(caught.value, "r.json")


def test_a_record_with_values_changed_and_sealed_anew_makes_a_page_or_one_clear_fault(
    tmp_path, counted
):
    lab = factory.lab_with_entry(tmp_path / "lab")
    (path,) = (lab.root / "artifacts").rglob("records/*/*.json")
    place = path.relative_to(lab.root).as_posix()

    def judge(content):
        path.write_bytes(content)
        archive = Archive(lab.repository)
        journal, faults = read_journal(archive)
        for fault in faults:
            clear(fault, fault.place.partition(":")[0])
        known = archive.of("row-sum")
        assert len(known.faults) + len(known.devices) == 1
        for fault in known.faults:
            clear(fault, place)
        for outcome in journal.outcomes:
            write(outcome)

    records = hostile.changed(json.loads(path.read_bytes()))
    fuzz(1500, records.map(hostile.sealed), judge)
    counted("a value of a record is changed and the record sealed anew", 1500)


def test_files_of_any_name_are_read_or_give_clear_faults(tmp_path, counted):
    """In the folders of entries, of an artifact, of its records and of one device."""
    lab = factory.lab_with_entry(tmp_path / "lab")
    folders = [path.parent for path in lab.root.rglob("*") if path.is_file()]
    tried = 0
    for folder in dict.fromkeys(folders):
        for name in hostile.NAMES:
            path = Path(os.fsdecode(os.path.join(os.fsencode(folder), name)))  # noqa: PTH118
            if path.exists():
                continue
            path.write_text("x", encoding="utf-8")
            for fault in check(lab.repository):
                clear(fault, fault.place.partition(":")[0])
            path.unlink()
            tried += 1
    counted("a file has a name that means something elsewhere", tried)


@pytest.mark.parametrize("name", [b"\xff.py", b"a\nb.py", b"\x1b[2J.py", "\u202egnp.exe".encode()])
def test_a_file_whose_name_no_record_can_hold_is_a_fault_of_its_artifact(tmp_path, name):
    lab = factory.lab_with_entry(tmp_path / "lab")
    (lab.artifact().folder / os.fsdecode(name)).write_text("x", encoding="utf-8")
    (fault,) = [each for each in check(lab.repository) if "the name is no plain text" in str(each)]
    clear(fault, fault.place)
    with pytest.raises(Fault, match="the name is no plain text"):
        lab.artifact().digests([])
