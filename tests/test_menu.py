"""Commands that are printed work where they are pasted."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from warplog.menu import VARIABLE, command, documented

ROOT = Path(__file__).parents[1]
OURS = [path for path in sorted(ROOT.glob("warplog/*.py")) if path.name != "menu.py"]


@pytest.mark.parametrize("nox", ["nox", ".venv/bin/nox", "nox --no-venv"])
def test_a_command_begins_as_nox_was_started(monkeypatch, nox):
    monkeypatch.setenv(VARIABLE, nox)
    assert command("check") == f"{nox} -s check"
    assert command("reproduce", "ceilings", "--publish") == (
        f"{nox} -s reproduce -- ceilings --publish"
    )


@pytest.mark.parametrize("session", ["check", "serve"])
def test_without_nox_a_command_runs_in_this_very_python(monkeypatch, session):
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("PATH", "/nowhere")
    words = [*command(session).split(), "--help"]
    assert words[0] == sys.executable
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_a_python_on_the_path_is_named_shortly(monkeypatch):
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert command("check") == f"{Path(sys.executable).name} -m warplog check"


def test_without_nox_the_words_are_the_commands_own(monkeypatch):
    monkeypatch.delenv(VARIABLE)
    assert command("fill", "one-sum").endswith(" -m warplog fill one-sum")


def test_what_a_page_says_does_not_depend_on_who_built_it(monkeypatch):
    monkeypatch.setenv(VARIABLE, "nox --no-venv")
    assert documented("check") == ".venv/bin/nox -s check"
    assert f"`{documented('check')}`" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_no_module_writes_such_a_command_by_itself(path):
    """A docstring may name one: nobody sees it."""
    text = re.sub(r'""".*?"""', "", path.read_text("utf-8"), flags=re.DOTALL)
    assert "nox -s" not in text


@pytest.mark.parametrize(
    "path",
    ["README.md", "CONTRIBUTING.md", "AGENTS.md", *sorted(map(str, ROOT.glob("site_src/*.md")))],
    ids=lambda path: Path(path).name,
)
def test_a_document_names_the_nox_of_its_set_up(path):
    assert not re.findall(r"(?<!\.venv/bin/)\bnox -s .*", (ROOT / path).read_text("utf-8"))
