"""An artifact on its way to another machine: what it takes along, and what may come home."""

import dataclasses
import tempfile
from importlib import metadata

import factory
import msgspec
import pytest

from warplog import errand, parcel, placement, runner
from warplog.fault import Fault
from warplog.record import dumps
from warplog.runner import Options, Outcome

LABELS = {"GPU": 3.0, "CPU": 8.0, "accelerator_type:H200": 1.0, "accelerator_type:A100": 1.0}


@pytest.fixture
def lab(tmp_path):
    return factory.Lab(tmp_path / "lab")


@pytest.fixture
def artifact(lab):
    shared = lab.root / "artifacts" / "shared"
    shared.joinpath("sizes.py").write_text("SIZE = 64\n", encoding="utf-8")
    return lab.artifact()


def packed(artifact, **options):
    return parcel.pack(artifact, Options(**options), gpu=True)


def reply_of(artifact, **changes):
    record = factory.record_of(artifact, factory.timed(batch=31), **changes)
    return parcel.Reply(dumps(record).encode())


def received(artifact, reply, aside=None, **options):
    return parcel.receive(artifact, *packed(artifact, **options), reply, aside)


def test_it_takes_the_artifact_and_what_is_shared_and_no_record(lab, artifact):
    lab.publish(artifact, factory.timed(batch=31))
    lab.artifact("other")
    files = packed(artifact)[0].files
    assert sorted(files) == ["row-sum/kernel.py", "row-sum/reproduce.py", "shared/sizes.py"]


def test_what_git_ignores_and_what_a_link_leads_to_travel_too(artifact):
    (artifact.folder / ".gitignore").write_text("*.bin\n", encoding="utf-8")
    (artifact.folder / "table.bin").write_bytes(b"\0\1")
    (artifact.folder / "link.bin").symlink_to("table.bin")
    sent = packed(artifact)[0]
    assert sent.files["row-sum/link.bin"] == b"\0\1"
    assert {"table.bin", "link.bin", ".gitignore"} < sent.digests.keys()


def fulfilled(sent, monkeypatch, outcome=None):
    """The reply of a worker, and the artifact as it saw it."""
    seen = []

    def reproduce(artifact, options, _report):
        seen.append((artifact.digests(["../shared/sizes.py"]), options))
        return outcome or Outcome(factory.record_of(artifact, factory.timed(batch=31)))

    monkeypatch.setattr(runner, "reproduce", reproduce)
    through = msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=parcel.Parcel)
    return parcel.fulfil(through, lambda _: None), seen


def test_what_is_measured_there_is_what_stood_here(artifact, monkeypatch):
    sent, _ = packed(artifact, runs=3, time_limit=7.0)
    reply, ((digests, options),) = fulfilled(sent, monkeypatch)
    assert digests == artifact.digests(["../shared/sizes.py"])
    assert (options.runs, options.time_limit, options.gpu) == (3, 7.0, 0)
    assert received(artifact, reply).record.artifact == "row-sum"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"files": {"row-sum/reproduce.py": b"x"}}, "what arrived is not what was sent"),
        ({"harness": "sha256:0"}, "Warplog is another there than here"),
    ],
)
def test_what_changed_on_the_way_is_not_measured(artifact, monkeypatch, changes, says):
    sent = msgspec.structs.replace(packed(artifact)[0], **changes)
    reply, seen = fulfilled(sent, monkeypatch)
    assert says in reply.reason
    assert seen == []


def test_a_fault_comes_home_with_what_was_measured_before_it(artifact, monkeypatch, tmp_path):
    kept = tmp_path / "kept.json"
    kept.write_text('{"incomplete": true}\n', encoding="utf-8")
    there = Outcome(None, "process 2 of 6: killed", "last words", kept, ["a note"], started=True)
    reply, _ = fulfilled(packed(artifact)[0], monkeypatch, there)
    home = received(artifact, reply, tmp_path / "aside")
    assert dataclasses.replace(home, kept=kept) == there
    assert home.kept.parent == tmp_path / "aside" / "row-sum"
    assert home.kept.read_text("utf-8") == '{"incomplete": true}\n'


def test_the_commit_is_the_word_of_home(artifact):
    there = reply_of(artifact)
    assert received(artifact, there).record.source.commit is None
    stated = received(artifact, there, commit="abcdef0").record.source
    assert (stated.commit, stated.modified) == ("abcdef0", None)


def test_a_source_that_changed_meanwhile_makes_no_record(artifact, tmp_path):
    there = reply_of(artifact)
    (artifact.folder / "kernel.py").write_text("changed = 1\n", encoding="utf-8")
    home = received(artifact, there, tmp_path)
    assert home.record is None
    assert "kernel.py changed while it ran" in home.reason
    assert home.kept.is_file()


def test_a_record_cut_short_is_not_filed(artifact):
    cut = parcel.Reply(reply_of(artifact).record[:-200])
    with pytest.raises(Fault, match="the record of row-sum that came back"):
        received(artifact, cut)


def test_a_gpu_that_torch_does_not_see_is_no_measurement(artifact):
    home = received(artifact, reply_of(artifact, device="cpu"))
    assert home.record is None
    assert "torch found no GPU" in home.reason
    assert not home.started


def test_a_nodes_clock_that_is_ahead_does_not_date_a_record(artifact, monkeypatch):
    monkeypatch.setattr(parcel, "utc_now", lambda: "2026-12-03T00:00:00Z")
    ahead = received(artifact, reply_of(artifact, recorded="2029-01-01T00:00:00Z")).record
    assert ahead.recorded == "2026-12-03T00:00:00Z"


def test_what_a_killed_worker_unpacked_is_removed_by_the_next(artifact, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary" / "warplog-scratch.x2x4x6x8" / "artifacts").mkdir(parents=True)
    fulfilled(packed(artifact)[0], monkeypatch)
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        ("nvidia-h200", "H200"),
        ("nvidia-a100-sxm4-80gb", "A100"),
        ("nvidia-geforce-rtx-5090", "GeForce-RTX-5090"),
        ("nvidia-h20", None),
        ("nvidia-b200", None),
    ],
)
def test_a_device_is_found_by_rays_name_for_its_kind(device, kind):
    assert placement.kind_of(device, ["A100", "H200", "GeForce-RTX-5090", "5090"]) == kind


def test_a_task_takes_the_entrys_gpu_else_any_else_a_cpu_and_says_so():
    assert placement.place(LABELS, "nvidia-h200") == placement.Place(gpu=True, kind="H200")
    other = placement.place(LABELS, "nvidia-b200")
    assert (other.gpu, other.kind) == (True, None)
    assert "no nvidia-b200" in other.note
    none = placement.place({"CPU": 8.0}, "nvidia-h200")
    assert not none.gpu
    assert "nothing is timed" in none.note


def test_a_gpu_that_was_asked_for_is_not_replaced():
    with pytest.raises(Fault, match="the cluster has no nvidia-b200; it has: A100, H200"):
        placement.place(LABELS, "nvidia-b200", insists=True)


def test_requirements_are_the_files_lines_and_those_for_a_gpu_only_there(artifact):
    for name, text in (("", "b>=2 # why\n\n# none\na\n"), ("-gpu", "c==1\n")):
        (artifact.folder / f"requirements{name}.txt").write_text(text, encoding="utf-8")
    assert placement.requirements(artifact, gpu=False) == ["a", "b>=2"]
    assert placement.requirements(artifact, gpu=True) == ["a", "b>=2", "c==1"]


def test_what_warplog_itself_needs_is_what_it_declares(monkeypatch):
    lines = ["msgspec>=0.19", 'torch>=2.11; extra == "measure"', 'ruff>=0.9; extra == "lint"']
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    assert placement.own_needs() == ["msgspec>=0.19", "torch>=2.11"]


def test_a_node_says_what_it_lacks_before_it_begins():
    needs = ["pytest>=1", "pytest<1", "no-such-package", "-r more.txt", "x; python_version < '3'"]
    lacking = ["pytest<1", "no-such-package", "-r more.txt"]
    assert errand.run(needs, b"", None, "") == (lacking, b"")
