"""What ended a script is one line: the artifact's file and line, the error, the remedy where it is known."""

import pytest
import torch

from warplog.mishap import mishap
from warplog.process import load_script
from warplog.run import Run


def ended(tmp_path, monkeypatch, script, **files):
    """What is said of an artifact `x` with this script, loaded and run once."""
    import sys

    folder = tmp_path / "artifacts" / "x"
    folder.mkdir(parents=True)
    for name, text in {"reproduce": script, **files}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    try:
        load_script(folder).reproduce(Run(lambda _: None))
    except Exception as error:  # noqa: BLE001 - whatever it is
        return mishap(error, folder)
    finally:
        for name in set(sys.modules) & {"reproduce", *files} - known:
            del sys.modules[name]
    raise AssertionError("nothing went wrong")


CALL = 'run.compare({"a": abs}, abs, lambda seed: seed'
MISTAKES = {
    "raises": ('raise KeyError("boom")', "reproduce.py:2: KeyError: 'boom'"),
    "baseline": (f'{CALL}, baseline="b")', ("reproduce.py:2: ValueError: baseline='b' is no subject; "
                 "use one of: a")),
    "misspelt": (f"{CALL}, tolerence=0)", ("reproduce.py:2: ValueError: tolerence= is taken as a size, "
                 "and looks like tolerance=; write tolerance=, or give the size a name of its own")),
    "no tiny": ("run.sizes(full=[1])", "reproduce.py:2: ValueError: run.sizes has no tiny sizes; add"),
    "package": ("import no_such", ("reproduce.py:2: ModuleNotFoundError: No module named 'no_such'; name "
                "its package in artifacts/x/requirements.txt, which nox installs")),
    "own": ("import reference", "add artifacts/x/reference.py, or import what is there"),
    "deeper": ("import kernelx\n    kernelx.f()", "artifacts/x/kernelx.py:2: ZeroDivisionError: "),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_of_a_script_is_one_line_with_its_place(tmp_path, monkeypatch, kind):
    body, says = MISTAKES[kind]
    script = f"def reproduce(run):\n    {body}\n"
    found = ended(tmp_path, monkeypatch, script, kernelx="def f():\n    return 1 / 0\n")
    assert found.line.startswith("artifacts/x/")
    assert says in found.line
    assert found.rest == ""


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("x = 1\n", "artifacts/x/reproduce.py: defines no function reproduce; write `def rep"),
        (
            "def reproduce():\n    pass\n",
            "does not take one argument, run; write `def reproduce(run)",
        ),
        ("def reproduce(run:\n", "artifacts/x/reproduce.py:1: SyntaxError: '(' was never closed"),
    ],
)
def test_a_script_that_cannot_start_says_what_to_write(tmp_path, monkeypatch, script, says):
    assert says in ended(tmp_path, monkeypatch, script).line


def test_more_lines_of_an_error_are_kept(tmp_path, monkeypatch):
    found = ended(tmp_path, monkeypatch, "def reproduce(run):\n    raise ValueError('a\\nb')\n")
    assert found.line == "artifacts/x/reproduce.py:2: ValueError: a"
    assert found.rest == "a\nb"


def test_a_bug_of_the_harness_keeps_its_traceback(tmp_path, monkeypatch):
    monkeypatch.setattr("warplog.run.number", None)
    monkeypatch.setattr("warplog.run.draw", lambda *_: torch.no_such)
    script = f"def reproduce(run):\n    {CALL}, traffic=1)\n"
    assert ended(tmp_path, monkeypatch, script).line == ""


@pytest.mark.parametrize("name", ["tile", "rows", "line", "warps", "words"])
def test_a_size_with_a_name_of_its_own_is_taken(name):
    from warplog.run import _refuse_misspelt

    _refuse_misspelt({name: 1})
