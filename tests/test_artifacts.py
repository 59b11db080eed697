"""Every artifact, without a GPU: its script runs at tiny sizes and no subject is wrong."""

from pathlib import Path

import pytest

from warplog import runner
from warplog.doubt import doubts
from warplog.entry import load_all
from warplog.source import Repository

REPOSITORY = Repository.find(Path(__file__))
ENTRIES, _ = load_all(REPOSITORY)


@pytest.mark.parametrize("slug", [artifact.slug for artifact in REPOSITORY.artifacts()])
def test_an_artifact_is_right_at_tiny_sizes(slug):
    outcome = runner.reproduce(REPOSITORY.artifact(slug), runner.Options(runs=1), lambda _: None)
    assert outcome.record is not None, f"{outcome.reason}\n{outcome.output}"
    checked = [each for each in outcome.record.measurements if each.metric == "error"]
    assert checked, "nothing was compared with a reference"
    assert [each for each in outcome.record.measurements if each.failed] == []
    folder, files = REPOSITORY.artifact(slug).folder, outcome.record.source.files
    source = "\n".join((folder / name).read_text("utf-8") for name in files if name[-3:] == ".py")
    named = {
        f"{e.slug}: {n}": q for e in ENTRIES if e.artifact == slug for n, q in e.quantities.items()
    }
    assert list(doubts(named, outcome.record, [], source, outcome.offered)) == [], (
        "right names are doubted"
    )


@pytest.mark.parametrize("slug", [artifact.slug for artifact in REPOSITORY.artifacts()])
def test_importing_a_script_runs_nothing(slug, monkeypatch):
    import sys

    from warplog.process import load_script

    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    try:
        assert callable(load_script(REPOSITORY.artifact(slug).folder).reproduce)
    finally:
        for name in set(sys.modules) - before:
            if "artifacts" in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
        sys.modules.pop("reproduce", None)
