"""The journal that builds are measured with is right, always the same, and says what the bare site says."""

import re
import sys

import pytest
import scale
import thousand

from warplog.check import check
from warplog.entry import load_all
from warplog.evidence import Archive
from warplog.journal import read_journal
from warplog.source import Repository

COUNT = 3


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return thousand.journal(tmp_path_factory.mktemp("scale") / "journal", COUNT)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return thousand.bare(tmp_path_factory.mktemp("scale") / "bare", COUNT)


def test_the_same_seed_makes_the_same_files(root, tmp_path):
    again = thousand.journal(tmp_path / "again", COUNT)
    files = [path for path in root.rglob("*") if path.is_file() and ".cache" not in path.parts]
    assert len(files) > COUNT * 7
    for path in files:
        assert path.read_bytes() == (again / path.relative_to(root)).read_bytes(), path


def test_every_entry_is_right_and_judged_on_three_gpus(root):
    journal, faults = read_journal(Archive(Repository(root)))
    assert faults == []
    assert len(journal.outcomes) == COUNT
    for outcome in journal.outcomes:
        assert len(outcome.entry.claims) == 6
        assert [column.evidence.fresh for column in outcome.columns] == [True] * 3
    verdicts = {verdict.value for verdict in journal.counts}
    assert {"supported", "refuted"} <= verdicts
    assert "untested" not in verdicts
    told = [fault for fault in check(Repository(root)) if "fill" not in fault.remedy]
    assert [fault for fault in told if "ceilings" not in fault.place] == []


def test_an_entry_is_as_long_as_asked_and_its_code_too(root):
    entries, _ = load_all(Repository(root))
    for entry in entries:
        prose = entry.body.prose[entry.body.start :]
        assert len(prose.split()) == pytest.approx(thousand.WORDS, rel=0.1)
        kernel = (root / "artifacts" / entry.artifact / "kernel.py").read_text(encoding="utf-8")
        compile(kernel, "kernel.py", "exec")
        assert kernel.count("\n") >= thousand.CODE_LINES


def test_the_bare_site_says_the_same_words(root, bare):
    for path in (root / "entries").glob("*.md"):
        _, _, said = path.read_text(encoding="utf-8").split("---\n", 2)
        said = re.sub(
            r"```.*?```", "", re.sub(r"\[\?\]\(#[\w-]+\)", "so much", said), flags=re.DOTALL
        )
        words = (bare / "docs/entries" / path.name[11:]).read_text(encoding="utf-8")
        assert words.count("```python") == 2
        words = re.sub(r"```.*?```", "", words, flags=re.DOTALL).partition("\n")[2]
        assert words.split() == said.split()


def test_a_build_is_measured(bare):
    taken = scale.build(bare, cold=True)
    assert (bare / "site/entries").is_dir()
    assert taken.clock > 0
    assert taken.worked > 0
    assert taken.memory > 10


def test_a_build_that_fails_ends_the_measuring(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    with pytest.raises(SystemExit, match="ended with 3"):
        scale.build(tmp_path)


def taken(clock, memory=100.0, worked=None):
    return scale.Taken(clock, clock if worked is None else worked, memory)


@pytest.mark.parametrize(
    ("cold", "warm", "memory", "last", "missed"),
    [
        (11.4, 7.9, 499, 16.0, []),
        (11.6, 7.9, 499, 16.0, ["cold / bare"]),
        (11.4, 8.1, 499, 16.0, ["warm / bare"]),
        (11.4, 7.9, 501, 16.0, ["memory in MiB"]),
        (11.4, 7.9, 499, 18.5, ["work of a late entry / of an early one"]),
    ],
)
def test_each_goal_is_missed_by_itself(capsys, cold, warm, memory, last, missed):
    found = {250: taken(4), 500: taken(8), 1000: taken(last)}
    builds = {"bare": taken(10), "cold": taken(cold, memory), "warm": taken(warm)}
    assert scale.report(builds, found, 1000) == missed
    assert capsys.readouterr().out.count("MISSED") == len(missed)
