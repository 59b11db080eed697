"""Many GPUs on a real local Ray: what a death in the middle costs, and that nothing stays behind."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path

import factory
import pytest

Cluster = pytest.importorskip("ray.cluster_utils").Cluster

ROOT = Path(__file__).parents[1]
MARK = "WARPLOG_TEST_OF_CLUSTER"
HEAD = """
import os, pathlib, signal, time

def count(run):
    run.count("error", 0, unit="fraction", subject="s")

def compare(run):
    import torch
    double = {"double": lambda x: x * 2}
    run.compare(double, lambda x: x.double() * 2, lambda seed: torch.ones(64) * seed, size=64)

def once(name):
    path = pathlib.Path(FLAGS) / name
    there = path.exists()
    path.write_text(str(os.getpid()))
    return not there

def end_worker():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)

def reproduce(run):
"""


class Lab(factory.Lab):
    """A repository under git, and the command run in it, every process of it marked."""

    def script(self, slug, body):
        """An artifact whose `reproduce(run)` has this body."""
        (self.root / "flags").mkdir(exist_ok=True)
        flags = f"FLAGS = {str(self.root / 'flags')!r}"
        script = flags + HEAD + textwrap.indent(textwrap.dedent(body), "    ")
        return self.artifact(slug, reproduce=script)

    def commit(self):
        """Commit all that there is, and return the commit."""
        (self.root / ".gitignore").write_text(".warplog/\nflags/\n", encoding="utf-8")
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "all"]):
            subprocess.run(["git", *words], cwd=self.root, check=True)
        head = ["git", "rev-parse", "HEAD"]
        return subprocess.run(
            head, cwd=self.root, capture_output=True, text=True, check=True
        ).stdout

    def start(self, *words):
        """Start `warplog` with these words."""
        self.mark = uuid.uuid4().hex
        own = {"PYTHONPATH": str(ROOT), MARK: self.mark}
        return subprocess.Popen(
            [sys.executable, "-m", "warplog", *words],
            cwd=self.root, env=os.environ | own, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, *words):
        """Run `warplog`; return its status and what it said, on one line."""
        with self.start(*words) as process:
            said = process.communicate(timeout=120)[0]
        return process.returncode, said

    def kept(self, slug):
        """The records of `slug` that came home and were not published."""
        paths = self.root.glob(f".warplog/{slug}/*/*.json")
        return [json.loads(path.read_text("utf-8")) for path in paths]


def left(mark):
    """What still lives, a few seconds later, of the processes that were started under `mark`."""
    deadline = time.monotonic() + 15
    while (found := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def marked(mark):
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (path / "environ").read_bytes():
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" "))
        except OSError:
            continue
    return found


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path / "lab")


@pytest.fixture(scope="module")
def cluster():
    """A head that runs nothing, and two nodes with a CPU each."""
    mark = uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, mark)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        for _ in range(2):
            made.add_node(num_cpus=1)
        yield made
        made.shutdown()
    assert left(mark) == []


def wait_for(path, process):
    """The number that the task writes to `path` when it begins."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.05)
    process.kill()
    pytest.fail(f"the task did not start: {process.communicate()[0]}")


def ancestors(pid):
    """The process and those that it comes from."""
    while pid > 1:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def outcomes(said):
    """The table at the end of `verify`."""
    rows = [line.strip("│").split("│") for line in said.splitlines() if line.startswith("│")]
    return {slug.strip(): outcome.strip() for slug, outcome in rows}


def test_a_worker_killed_in_the_middle_loses_nothing_and_the_others_go_on(lab, cluster):
    lab.script("good", "compare(run)")
    lab.script("dies-once", "count(run)\nif once('once'):\n    end_worker()")
    lab.script("dies-always", "end_worker()")
    lab.script("raises", "count(run)\nraise ValueError('no such size')")
    head = lab.commit()
    status, said = lab.run("verify", "--on", cluster.address)
    assert status == 2, said
    assert "dies-once: attempt 1 of 2: its worker died; again" in said
    assert "dies-always: attempt 2 of 2: its worker died\n" in said
    place = r"artifacts/raises/reproduce\.py:\d+"
    assert re.search(rf"raises: process 1 of 1: {place}: ValueError: no such size", said)
    assert "good: run 1 of 1" in said
    assert outcomes(said) == {
        "dies-always": "could not run",
        "dies-once": "right, and nothing was timed",
        "good": "right, and nothing was timed",
        "raises": "differs or wrong",
    }
    for slug in ("good", "dies-once"):
        (record,) = lab.kept(slug)
        assert record["source"]["commit"] == head.strip()
        assert record["source"]["modified"] is False
        assert "OMP_NUM_THREADS" not in record["environment"]["variables"]


def test_a_node_that_dies_in_the_middle_loses_nothing(lab, cluster):
    lab.script("slow", "count(run)\nif once('pid'):\n    time.sleep(60)")
    with lab.start("reproduce", "slow", "--on", cluster.address) as process:
        pids = set(ancestors(wait_for(lab.root / "flags" / "pid", process)))
        (node,) = [each for each in cluster.worker_nodes if raylet(each) in pids]
        cluster.remove_node(node, allow_graceful=False)
        said = process.communicate(timeout=90)[0]
    assert process.returncode == 0, said
    assert re.search("slow: attempt 1 of 2: its (node|worker) died; again", said)
    assert len(lab.kept("slow")) == 1


def raylet(node):
    (found,) = node.all_processes["raylet"]
    return found.process.pid


def test_a_task_goes_to_the_kind_of_gpu_that_its_entry_names(lab, cluster):
    lab.script("row-sum", "once(os.environ['KIND'] + os.environ['CUDA_VISIBLE_DEVICES'])")
    lab.entry()
    for kind in ("A100", "H200"):
        label = {f"accelerator_type:{kind}": 1}
        cluster.add_node(num_cpus=1, num_gpus=1, resources=label, env_vars={"KIND": kind})
    status, said = lab.run("reproduce", "row-sum", "--on", cluster.address, "--runs", "1")
    assert [path.name for path in lab.root.glob("flags/*")] == ["H2000"], said
    assert status == 2
    assert "torch found no GPU where Ray gave one" in said
    assert lab.kept("row-sum") == []


def stopped(lab, number, address):
    """Stop a task in the middle; return its process, and what was said."""
    lab.script("slow", "once('began')\ntime.sleep(60)")
    with lab.start("reproduce", "slow", "--on", address) as process:
        pid = wait_for(lab.root / "flags" / "began", process)
        process.send_signal(number)
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 130, said
    assert "no published record was changed" in said
    assert "Traceback" not in said
    assert lab.kept("slow") == []
    return pid


def test_a_stop_cancels_the_task_and_leaves_the_cluster(lab, cluster):
    pid = stopped(lab, signal.SIGTERM, cluster.address)
    assert not Path(f"/proc/{pid}").exists()


def test_a_cluster_that_was_started_here_is_stopped_here(lab):
    stopped(lab, signal.SIGINT, "local")
    assert left(lab.mark) == []
