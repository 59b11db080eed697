"""What is kept between builds comes back as it was, or not at all."""

import os
import time

import pytest

from warplog.cache import Cache, digest

KEY = digest("page", "1")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kept"


@pytest.fixture
def path(folder):
    """The file of what is kept under KEY."""
    Cache(folder).put(KEY, b"words")
    return next(path for path in folder.rglob("*") if path.is_file())


def test_what_was_put_is_got(folder):
    Cache(folder).put(KEY, b"words")
    assert Cache(folder).holds(KEY)
    assert Cache(folder).get(KEY) == b"words"
    assert Cache(folder).get(digest("page", "2")) is None


@pytest.mark.parametrize(
    "content", [b"", b"wor", b"not ours, but long enough to be something", b"warplog\x01abcdwords"]
)
def test_a_foreign_or_broken_file_is_none(folder, path, content):
    path.write_bytes(content)
    assert Cache(folder).get(KEY) is None


def test_a_file_cut_short_is_none_and_is_written_anew(folder, path):
    path.write_bytes(path.read_bytes()[:-1])
    assert Cache(folder).get(KEY) is None
    Cache(folder).put(KEY, b"words")
    assert Cache(folder).get(KEY) == b"words"


def test_a_reader_never_sees_a_part(folder, path, monkeypatch):
    """While the new content is written, the old one stands."""
    seen = []
    replace = type(path).replace

    def replaced(part, target):
        seen.append(Cache(folder).get(KEY))
        return replace(part, target)

    monkeypatch.setattr(type(path), "replace", replaced)
    Cache(folder).put(KEY, b"other words")
    assert seen == [b"words"]
    assert Cache(folder).get(KEY) == b"other words"


def test_a_folder_that_cannot_be_written_keeps_nothing_and_harms_nothing(tmp_path):
    (tmp_path / "kept").write_text("a file in the way")
    Cache(tmp_path / "kept").put(KEY, b"words")
    assert Cache(tmp_path / "kept").get(KEY) is None


def test_without_a_folder_nothing_is_kept():
    nothing = Cache(None)
    nothing.put(KEY, b"words")
    nothing.forget()
    assert nothing.get(KEY) is None
    assert not nothing.holds(KEY)


def test_what_nobody_used_for_two_weeks_is_forgotten(folder, path):
    Cache(folder).forget()
    assert path.exists()
    weeks_ago = time.time() - 15 * 86_400
    os.utime(path, (weeks_ago, weeks_ago))
    Cache(folder).forget()
    assert not path.exists()


def test_what_is_used_is_not_forgotten(folder, path):
    weeks_ago = time.time() - 15 * 86_400
    os.utime(path, (weeks_ago, weeks_ago))
    Cache(folder).get(KEY)
    Cache(folder).forget()
    assert Cache(folder).get(KEY) == b"words"


def test_the_borders_of_parts_count():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a") != digest("a", "")
    assert digest("a", b"b") == digest(b"a", "b")
