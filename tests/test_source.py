"""The digest that binds a record to its source, and the paths that may not leave the tree."""

import msgspec
import pytest
from factory import Lab, record_of, timed

from warplog.fault import Fault
from warplog.source import Change, Repository, closure_digest, file_digest, told


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path / "lab")


def test_line_endings_do_not_count(tmp_path):
    unix, windows = tmp_path / "a", tmp_path / "b"
    unix.write_bytes(b"one\ntwo\n")
    windows.write_bytes(b"one\r\ntwo\r\n")
    assert file_digest(unix) == file_digest(windows)


def test_line_endings_count_in_a_binary(tmp_path):
    one, two = tmp_path / "a", tmp_path / "b"
    one.write_bytes(b"\0\r\n")
    two.write_bytes(b"\0\n")
    assert file_digest(one) != file_digest(two)


def test_a_changed_file_makes_a_record_stale_by_name(lab):
    artifact = lab.artifact()
    record = record_of(artifact, timed(batch=1))
    assert artifact.changes(record) == {}
    (artifact.folder / "kernel.py").write_text("pass\n")
    assert artifact.changes(record) == {"kernel.py": Change.EDITED}


def test_a_file_that_was_added_or_removed_is_told_from_one_that_changed(lab):
    artifact = lab.artifact()
    (artifact.folder / "old.py").write_text("pass\n")
    record = record_of(artifact, timed(batch=1))
    (artifact.folder / "old.py").unlink()
    (artifact.folder / "more.py").write_text("pass\n")
    (artifact.folder / "next.py").write_text("pass\n")
    changes = artifact.changes(record)
    assert changes == {
        "more.py": Change.ADDED,
        "next.py": Change.ADDED,
        "old.py": Change.REMOVED,
    }
    assert told(changes) == "more.py, next.py were added and old.py was removed"
    assert told(changes, 1) == "more.py and 1 more were added and old.py was removed"


def test_a_changed_shared_module_counts_only_if_it_was_imported(lab):
    artifact = lab.artifact()
    shared = lab.root / "artifacts" / "shared"
    (shared / "rows.py").write_text("ROWS = 1\n")
    (shared / "other.py").write_text("OTHER = 1\n")
    files = artifact.digests(["../shared/rows.py"])
    record = record_of(artifact, timed(batch=1))
    source = msgspec.structs.replace(record.source, files=files, digest=closure_digest(files))
    record = msgspec.structs.replace(record, source=source)
    (shared / "other.py").write_text("OTHER = 2\n")
    assert artifact.changes(record) == {}
    (shared / "rows.py").write_text("ROWS = 2\n")
    assert artifact.changes(record) == {"../shared/rows.py": Change.EDITED}
    (shared / "rows.py").unlink()
    assert artifact.changes(record) == {"../shared/rows.py": Change.REMOVED}


def test_a_digest_that_does_not_fit_its_files_is_stale(lab):
    artifact = lab.artifact()
    record = record_of(artifact, timed(batch=1))
    source = msgspec.structs.replace(record.source, digest="sha256:0")
    assert artifact.changes(msgspec.structs.replace(record, source=source))


def test_records_and_caches_are_no_source(lab):
    artifact = lab.artifact()
    before = artifact.digests([])
    lab.publish(artifact, timed(batch=1))
    (artifact.folder / "__pycache__").mkdir()
    (artifact.folder / "__pycache__" / "kernel.pyc").write_bytes(b"\0")
    (artifact.folder / ".DS_Store").write_text("x")
    assert artifact.digests([]) == before


@pytest.mark.parametrize("slug", ["../../etc", "a/b", "", "Row", "row_sum", "-row", "row\n"])
def test_a_name_that_could_leave_the_tree_is_no_artifact(lab, slug):
    with pytest.raises(Fault, match="no artifact can be called"):
        lab.repository.artifact(slug)


def test_a_link_that_points_out_is_refused(lab, tmp_path):
    outside = Lab(tmp_path / "outside").artifact("far")
    (lab.root / "artifacts" / "far").symlink_to(outside.folder)
    with pytest.raises(Fault, match="leaves the repository"):
        lab.repository.artifact("far")
    artifact = lab.artifact()
    (artifact.folder / "secret.py").symlink_to(outside.folder / "kernel.py")
    with pytest.raises(Fault, match="leaves the artifact"):
        artifact.files()


def test_an_unknown_artifact_names_the_known_ones(lab):
    lab.artifact("row-sum")
    with pytest.raises(Fault, match="row-sum"):
        lab.repository.artifact("row-sun")


def test_the_repository_is_found_from_below(lab, tmp_path):
    artifact = lab.artifact()
    assert Repository.find(artifact.folder).root == lab.root.resolve()
    with pytest.raises(Fault, match="checkout"):
        Repository.find(tmp_path)
