"""How a claim has fared on other GPUs: counted in places, and in other machines whose records agree."""

import re
from pathlib import Path

import pytest
from factory import H200, lab_with_entry, timed
from pages import B200, on, outcome, page_of, publish_b200, publish_later, row, shown, slow

from warplog.history import pasts
from warplog.reception import Reception, reception

NONE = "no other machine's record agrees"


@pytest.fixture
def lab(tmp_path):
    return lab_with_entry(tmp_path / "lab")


def fared(lab, devices=()):
    found = outcome(lab)
    return reception("fast", found, pasts(found)["fast"], devices).words


def test_of_one_record_alone_nothing_is_said(lab):
    assert fared(lab) == ""
    assert fared(lab, ["nvidia-a100"]) == ""
    assert "other machine" not in shown(lab)


def test_another_gpu_on_which_it_holds_confirms_it(lab):
    publish_b200(lab, timed(batch=31))
    assert fared(lab) == "holds on 2 GPUs; 1 other machine's record agrees"


def test_another_gpu_on_which_it_fails_does_not(lab):
    publish_b200(lab)
    assert fared(lab) == f"holds on 1 GPU, fails on 1; {NONE}, 1 disagrees"


def test_a_gpu_on_which_nobody_tried_is_counted(lab):
    publish_b200(lab, timed(batch=31))
    assert fared(lab, ["nvidia-h200", "nvidia-a100"]) == (
        "holds on 2 GPUs, never tried on 1; 1 other machine's record agrees"
    )


def test_another_record_of_the_same_machine_is_no_confirmation(lab):
    publish_later(lab, timed(batch=31))
    assert fared(lab) == ""


@pytest.mark.parametrize(
    "about",
    [{"driver": "590.1"}, {"system": "Linux aarch64"}, {"gpu": H200 | {"watts_limit": 600}}],
)
def test_another_machine_with_the_same_gpu_confirms_it_once(lab, about):
    artifact = lab.artifact()
    gpu = about.pop("gpu", H200)
    for day in (3, 4):
        publish_later(lab, timed(batch=31), day, environment=on(artifact, gpu, **about))
    assert fared(lab) == "holds on 1 GPU; 1 other machine's record agrees"


def test_another_machine_with_the_same_gpu_can_contradict_it(lab):
    artifact = lab.artifact()
    publish_later(lab, slow(batch=31), 3, environment=on(artifact, H200, driver="570.1"))
    publish_later(lab, timed(batch=31), 4)
    assert fared(lab) == f"holds on 1 GPU; {NONE}, 1 disagrees"


def test_a_record_of_other_source_confirms_nothing(lab):
    artifact = lab.artifact(kernel="pass\n")
    about = {"device": "nvidia-b200", "environment": on(artifact, B200)}
    lab.publish(artifact, timed(batch=31), **about)
    lab.artifact()
    assert fared(lab) == ""


def test_a_refutation_is_confirmed_by_those_that_refute_it_too(tmp_path):
    lab = lab_with_entry(tmp_path / "other")
    publish_later(lab, slow(batch=31))
    publish_b200(lab)
    assert fared(lab).startswith("fails on 2 GPUs; 1 other machine's record agrees")


@pytest.mark.parametrize(
    ("same", "other", "words"),
    [
        (0, 0, "no other machine's record agrees"),
        (0, 2, "no other machine's record agrees, 2 disagree"),
        (1, 1, "1 other machine's record agrees, 1 disagrees"),
        (2, 0, "records of 2 other machines agree"),
    ],
)
def test_it_says_which_records_there_are_and_not_whose_they_are(same, other, words):
    found = Reception(2, 0, 0, 0, same, other).words
    assert found == f"holds on 2 GPUs; {words}"


def test_nothing_is_called_independent_that_may_be_one_person_s_invention():
    root = Path(__file__).parents[1]
    texts = [root / "README.md", root / "CONTRIBUTING.md", *root.glob("site_src/*.md")]
    for path in [*texts, *root.glob("warplog/*.py")]:
        assert not re.search(r"(?i)independent(ly)? (record|confirm)", path.read_text("utf-8"))


def test_the_page_says_it_beside_the_claim(lab):
    publish_b200(lab, timed(batch=31))
    assert "holds on 2 GPUs; 1 other machine's record agrees" in row(shown(lab), "fast")
    assert page_of(lab).html
