"""A new entry passes every check untouched; what cannot be started leaves nothing behind."""

import sys
from datetime import date
from pathlib import Path

import factory
import pytest
import yaml
from typer.testing import CliRunner

from warplog import authorship, cli, runner, scaffold
from warplog.check import check
from warplog.entry import load
from warplog.evidence import Archive
from warplog.fault import Fault, Faults
from warplog.journal import outcome_of
from warplog.page import write
from warplog.publication import notes
from warplog.scaffold import Beginning, begin, slug_of
from warplog.source import Repository

TODAY = date(2026, 12, 2)
WANTED = Beginning("A norm in one pass", "norm", "nvidia-h200", ("triton",))


@pytest.fixture
def lab(tmp_path, monkeypatch):
    made = factory.Lab(tmp_path / "lab")
    monkeypatch.chdir(made.root)
    return made


def call(*words, answers=None):
    return CliRunner().invoke(cli.app, ["new", *words], input=answers)


def everything(lab):
    """Every file and folder but what git ignores."""
    return {path for path in lab.root.rglob("*") if ".cache" not in path.parts}


def test_it_is_right_at_tiny_sizes_without_a_change(lab):
    begin(lab.repository, WANTED, TODAY)
    artifact = lab.repository.artifact("norm")
    outcome = runner.reproduce(artifact, runner.Options(runs=1), lambda _: None)
    assert outcome.record is not None, outcome.output
    checked = {each.subject for each in outcome.record.measurements if each.metric == "error"}
    assert checked == {"kernel", "eager"}
    assert not [each for each in outcome.record.measurements if each.failed]


def test_it_passes_the_check_and_has_a_page(lab):
    path, *_ = begin(lab.repository, WANTED, TODAY)
    archive = Archive(lab.repository)
    assert check(lab.repository, archive) == []
    entry = load(path, lab.repository, archive)
    assert entry.draft
    assert entry.date == TODAY
    assert len(entry.claims) == 2
    assert entry.headline == "faster"
    assert "Draft." in "".join(write(outcome_of(entry, archive.of("norm"))).html.values())


def test_it_says_what_an_error_is_and_how_to_change_the_traffic(lab):
    path, *_, script = begin(lab.repository, WANTED, TODAY)
    says = load(path, lab.repository).claims["right"].says
    assert "the norm of its difference from the float64 reference over the norm of that" in says
    comment = script.read_text("utf-8").partition("traffic={")[0].splitlines()[-3:-1]
    assert all(line.strip().startswith("# ") for line in comment)


def test_the_check_tells_what_it_lacks(lab):
    begin(lab.repository, WANTED, TODAY)
    archive = Archive(lab.repository)
    entry = load(next((lab.root / "entries").iterdir()), lab.repository, archive)
    found = [note.problem for note in notes([entry], archive)]
    assert found == [
        "draft: no record of nvidia-h200, so its 2 claims are untested",
        "draft: summary: placeholder text left",
        "draft: placeholder text left: 7 lines begin with `To write:`",
        "draft: is still the template's kernel",
    ]


def test_it_is_not_published_as_it_is(lab):
    """Without its `draft: true`, each of the notes is a fault."""
    path, *_ = begin(lab.repository, WANTED, TODAY)
    path.write_text(path.read_text("utf-8").replace("draft: true\n", ""), encoding="utf-8")
    found = [fault.problem for fault in check(lab.repository)]
    assert "claim 'right': untested: there is no record of nvidia-h200" in found
    assert "summary: placeholder text left" in found
    assert "is still the template's kernel" in found


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("One pass over a row", "one-pass-over-a-row"),
        ("  What?! __This__ & that ", "what-this-that"),
        ("Größe der Zeile", "groe-der-zeile"),
        ("行", ""),
        ("word " * 40, "-".join(["word"] * 12)),
    ],
)
def test_a_title_suggests_a_slug(title, slug):
    assert slug_of(title) == slug


@pytest.mark.parametrize(
    "title",
    ["true", "2026", "1:30", "a: b # c", "- x", "'q\" \\", "null", "x" * 200, "[a, b]", "Zeile ×"],
)
def test_any_plain_title_is_kept_as_it_is(lab, title):
    path, *_ = begin(lab.repository, Beginning(title, "s", "d", (title,), title), TODAY)
    entry = load(path, lab.repository)
    assert (entry.title, entry.summary, entry.tags) == (title, title, (title,))
    front = yaml.safe_load(path.read_text("utf-8").split("---\n")[1])
    assert front["title"] == title


def test_a_slug_of_digits_is_a_name_too(lab):
    path, *_ = begin(lab.repository, Beginning("t", "123", "d", ("t",)), TODAY)
    assert load(path, lab.repository).artifact == "123"


@pytest.mark.parametrize("slug", ["", "A b", "../x", "a--b", "-a", "shared", "a" * 61, "ä", "a\n"])
def test_a_bad_slug_says_what_to_use(lab, slug):
    before = everything(lab)
    with pytest.raises(Fault, match="is no free name"):
        begin(lab.repository, Beginning("t", slug, "d", ("t",)), TODAY)
    assert everything(lab) == before


def test_a_bad_slug_is_answered_with_a_good_one(lab):
    with pytest.raises(Fault, match="use --slug my-kernel"):
        scaffold.check_slug("My kernel", lab.repository)


@pytest.mark.parametrize("taken", ["artifacts/norm", "entries/2020-01-01-norm.md"])
def test_a_slug_that_is_taken_says_by_what(lab, taken):
    path = lab.root / taken
    if path.suffix:
        path.write_text("---\n")
    else:
        path.mkdir()
    before = everything(lab)
    with pytest.raises(Fault, match=f"'norm' is taken by {taken}"):
        begin(lab.repository, WANTED, TODAY)
    assert everything(lab) == before


def test_the_slug_of_another_that_ends_alike_is_free(lab):
    (lab.root / "entries/2020-01-01-row-norm.md").write_text("---\n")
    begin(lab.repository, WANTED, TODAY)


@pytest.mark.parametrize("error", [OSError("No space left on device"), cli.Stopped()])
def test_what_breaks_off_leaves_nothing(lab, monkeypatch, error):
    def broken(*_):
        raise error

    monkeypatch.setattr(scaffold, "write_whole", broken)
    before = everything(lab)
    with pytest.raises(type(error)):
        begin(lab.repository, WANTED, TODAY)
    assert everything(lab) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("A 2x faster norm",), "title: holds the number '2x'"),
        (("A norm", "--summary", "It takes 33 µs."), "--summary: holds the number '33 µs'"),
        (("<b>",), "title: '<b>' is no plain text"),
        (("A norm", "--tags", "a<b"), "tags: 'a<b' is no plain text"),
        (("A norm", "--device", "H 200"), "device: 'H 200' is the name of no device"),
        (("  ",), "is no free name"),
        ((), "there is no title"),
    ],
)
def test_what_an_entry_cannot_hold_is_said_before_anything_is_written(lab, words, said):
    before = everything(lab)
    result = call(*words)
    assert said in str(result.exception)
    assert isinstance(result.exception, Fault | Faults)
    assert everything(lab) == before


def test_flags_answer_what_would_be_asked(lab, monkeypatch):
    monkeypatch.setattr(authorship, "_usual_device", lambda _: "nvidia-b200")
    result = call("A norm", "--tags", "a, b,a", "--slug", "n", "--summary", "One pass.", "--yes")
    assert result.exit_code == 0, result.output
    (path,) = (lab.root / "entries").iterdir()
    assert f"wrote entries/{path.name}" in result.output
    entry = load(path, Repository(lab.root))
    assert (entry.tags, entry.device, entry.summary) == (("a", "b"), "nvidia-b200", "One pass.")


class Terminal:
    """What says that someone is there."""

    def isatty(self):
        return True


def test_on_a_terminal_it_asks_and_asks_again_for_a_slug_that_is_free(lab, monkeypatch):
    (lab.root / "artifacts/taken").mkdir()
    monkeypatch.setattr(
        authorship, "sys", type("S", (), {"stdin": Terminal(), "stdout": Terminal()})
    )
    answers = "A norm\ntaken\nn\nnvidia-a100\ntriton, norms\n\ny\n"
    result = call(answers=answers)
    assert result.exit_code == 0, result.output
    entry = load(next((lab.root / "entries").iterdir()), Repository(lab.root))
    assert (entry.title, entry.artifact, entry.device) == ("A norm", "n", "nvidia-a100")
    assert entry.tags == ("triton", "norms")


def test_who_says_no_gets_nothing(lab, monkeypatch):
    monkeypatch.setattr(
        authorship, "sys", type("S", (), {"stdin": Terminal(), "stdout": Terminal()})
    )
    before = everything(lab)
    result = call("A norm", answers="\n\n\n\nn\n")
    assert "nothing was written" in str(result.exception)
    assert everything(lab) == before


def test_the_device_that_most_entries_are_about_is_the_default(lab, monkeypatch):
    monkeypatch.setenv("PATH", str(lab.root))
    assert authorship._usual_device(lab.repository) == "nvidia-h200"
    lab.artifact()
    lab.entry(factory.FRONT.replace("nvidia-h200", "nvidia-l4"))
    assert authorship._usual_device(lab.repository) == "nvidia-l4"


def test_the_gpu_that_is_here_is_the_default(lab, monkeypatch):
    tool = lab.root / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA GeForce RTX 5090'\necho 'NVIDIA L4'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{lab.root}:/usr/bin:/bin")
    assert authorship._usual_device(lab.repository) == "nvidia-geforce-rtx-5090"


def test_outside_a_checkout_it_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["warplog", "new", "A norm"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "run it inside a Warplog checkout" in capsys.readouterr().err
    assert list(Path(tmp_path).iterdir()) == []


@pytest.mark.parametrize(("slug", "free"), [("taken", "taken-2"), ("Ta ken", "ta-ken-2")])
def test_a_slug_that_is_taken_is_answered_with_one_that_is_free(lab, slug, free):
    (lab.root / "artifacts/taken").mkdir()
    (lab.root / "artifacts/ta-ken").mkdir()
    assert f"use --slug {free}" in str(call("A norm", "--slug", slug, "--yes").exception)
    assert call("A norm", "--slug", free, "--yes").exit_code == 0


@pytest.mark.parametrize(
    ("device", "name"),
    [("RTX 4090", "nvidia-geforce-rtx-4090"), ("NVIDIA A100-SXM4-80GB", "nvidia-a100-sxm4-80gb")],
)
@pytest.mark.usefixtures("lab")
def test_a_device_in_other_words_is_answered_with_the_name_that_records_have(device, name):
    said = str(call("A norm", "--device", device, "--yes").exception)
    assert said.startswith(f"--device: '{device}' is the name of no device; ")
    assert said.endswith(f"as records/ does: {name}")
