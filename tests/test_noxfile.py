"""The contributor's menu: what a session runs, without the sessions' environments."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from warplog.menu import VARIABLE

NOXFILE = Path(__file__).parents[1] / "noxfile.py"


def decorator(function=None, **_):
    return function or decorator


@pytest.fixture
def menu(monkeypatch):
    """The noxfile as a module; nox itself is not needed to read it."""
    stub = SimpleNamespace(session=decorator, Session=object, options=SimpleNamespace())
    monkeypatch.setitem(sys.modules, "nox", stub)
    spec = importlib.util.spec_from_file_location("noxfile", NOXFILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ran(function, *words):
    """The commands that a session runs in its environment when it is given `words`."""
    commands = []
    session = SimpleNamespace(
        posargs=list(words),
        virtualenv=SimpleNamespace(is_sandboxed=True),
        install=lambda *_: None,
        run=lambda *command, **_: commands.append(" ".join(command)),
    )
    function(session)
    return commands


def test_some_tests_are_not_held_against_the_floor_of_all(menu):
    assert ran(menu.tests, "-k", "row-norm") == ["python -m pytest -k row-norm"]


@pytest.mark.parametrize(
    "words",
    [
        "`.venv/bin/nox -s tests -- -k <slug>` tests your artifact",
        "A seal is no signature",
        "nothing in the entry changes",
        "status 0 is no sign of error, 1 a finding, 2",
        "status 0 is the same within noise, 1 anything else, 2",
    ],
)
def test_the_contributors_guide_says_so(words):
    assert words in NOXFILE.with_name("CONTRIBUTING.md").read_text("utf-8")


def test_all_tests_are(menu):
    assert ran(menu.tests)[-1] == "python -m coverage report"
    assert "python -m coverage run -m pytest" in ran(menu.tests)


@pytest.mark.parametrize(
    ("program", "sandboxed", "said"),
    [
        (".venv/bin/nox", True, ".venv/bin/nox"),
        ("/on/no path/nox", True, "'/on/no path/nox'"),
        ("ON PATH", True, "nox"),
        ("ON PATH", False, "nox --no-venv"),
        ("/lib/nox/__main__.py", True, f"{sys.executable} -m nox"),
    ],
)
def test_a_session_hears_how_nox_was_started(menu, monkeypatch, tmp_path, program, sandboxed, said):
    (tmp_path / "nox").write_text("#!/bin/sh\n")
    (tmp_path / "nox").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [program.replace("ON PATH", str(tmp_path / "nox"))])
    heard = []
    session = SimpleNamespace(
        posargs=[],
        virtualenv=SimpleNamespace(is_sandboxed=sandboxed),
        install=lambda *_: None,
        run=lambda *_, env, **__: heard.append(env[VARIABLE]),
    )
    menu.check(session)
    assert heard == [said]


def test_a_python_that_lacks_a_program_is_told_so_in_one_line(menu):
    """With `--no-venv` nothing is installed."""

    def error(words):
        raise RuntimeError(words)

    session = SimpleNamespace(virtualenv=SimpleNamespace(is_sandboxed=False), error=error)
    with pytest.raises(RuntimeError, match="has no no-such-program; install the list of pyproject"):
        menu.run(session, "no-such-program")
