"""Scratch folders: gone with their owner, however it ends, and never under somebody who lives."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from warplog import scratch
from warplog.scratch import scratch_folder

OWNER = """
import sys, tempfile
from warplog.scratch import scratch_folder
tempfile.tempdir = sys.argv[1]
with scratch_folder() as folder:
    (folder / "half").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Where temporary files go: an empty folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def owner(temporary):
    """Another process that has a scratch folder; it ends with the test."""
    words = [sys.executable, "-c", OWNER, str(temporary)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        one.folder = Path(one.stdout.readline().strip())
        yield one
        one.kill()


def test_a_scratch_folder_is_gone_at_the_end_with_all_that_is_in_it(temporary):
    with scratch_folder() as folder:
        (folder / "run").mkdir()
        (folder / "run" / "events").write_text("x")
    assert list(temporary.iterdir()) == []


def test_that_of_a_killed_command_is_gone_with_the_next(owner, temporary):
    owner.kill()
    owner.wait()
    assert (owner.folder / "half").is_dir()
    with scratch_folder() as folder:
        assert list(temporary.iterdir()) == [folder]


def test_that_of_a_living_command_stays(owner):
    with scratch_folder(), scratch_folder():
        assert (owner.folder / "half").is_dir()


def test_a_command_sweeps_none_of_its_own():
    with scratch_folder() as one, scratch_folder() as two:
        assert one.is_dir()
        assert two.is_dir()


def test_that_of_another_user_stays(temporary, monkeypatch):
    theirs = temporary / "warplog-scratch.abcdefgh"
    theirs.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: theirs.stat().st_uid + 1)
    with scratch_folder():
        assert theirs.is_dir()


def test_what_a_link_leads_to_stays(temporary):
    real = temporary / "kept"
    real.mkdir()
    (temporary / "warplog-scratch.abcdefgh").symlink_to(real)
    with scratch_folder():
        assert real.is_dir()


@pytest.mark.parametrize("name", ["warplog-top-k-abcdefgh", "warplog-scratch.x-abcdefgh"])
def test_a_record_that_was_kept_there_stays(name, temporary):
    (temporary / name).mkdir()
    with scratch_folder():
        assert (temporary / name).is_dir()


def test_a_folder_that_another_sweep_took_before_it_was_locked_is_made_again(monkeypatch):
    lock, taken = scratch._locked, []

    def late(path, operation):
        if not taken:
            taken.append(path)
            path.rmdir()
        return lock(path, operation)

    monkeypatch.setattr(scratch, "_locked", late)
    with scratch_folder() as folder:
        assert folder.is_dir()
        assert folder != taken[0]


def test_where_folders_cannot_be_locked_they_are_used_and_not_swept(temporary, monkeypatch):
    def refused(*_):
        raise OSError(38, "not implemented")

    monkeypatch.setattr(scratch.fcntl, "flock", refused)
    (temporary / "warplog-scratch.abcdefgh").mkdir()
    with scratch_folder() as folder:
        assert folder.is_dir()
        assert len(list(temporary.iterdir())) == 2
