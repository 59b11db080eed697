"""The contributor's menu: `nox --list` shows it, `nox -s <session>` does it.

Where torch is already installed and nothing can be downloaded, add `--no-venv`: the session then runs
in the Python that runs nox, and installs nothing.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["tests", "lint", "check", "site"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_external_run = True

ROOT = Path(__file__).parent
HAS_GPU = Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None
QUIET = {"NO_MKDOCS_2_WARNING": "1"}


def install(session: nox.Session, *what: str, constraints: str = "cpu") -> None:
    """Install `what` under the constraints file for this use, unless nox was told `--no-venv`."""
    if session.virtualenv.is_sandboxed:
        session.install("-q", "-c", f"constraints/{constraints}.txt", *what)


def measuring(session: nox.Session, slugs: Sequence[str] = ("*",)) -> None:
    """Install what measuring needs: torch and triton (CUDA builds on a GPU), and what the artifacts of
    these names need; `requirements-gpu.txt` is what is of use on a GPU alone, and too heavy for tests.
    """
    files = ["requirements.txt", *(["requirements-gpu.txt"] if HAS_GPU else [])]
    wanted = [f"artifacts/{slug}/{file}" for slug in slugs for file in files]
    found = [path for each in wanted for path in sorted(ROOT.glob(each))]
    needs = [word for path in found for word in ("-r", str(path))]
    install(session, "-e", ".[measure]", *needs, constraints="gpu" if HAS_GPU else "cpu")


def on_cluster(session: nox.Session) -> None:
    """Install Ray where the command is to run on a cluster."""
    if any(word.partition("=")[0] == "--on" for word in session.posargs):
        install(session, "-e", ".[measure,ray]", constraints="gpu" if HAS_GPU else "cpu")


def started(session: nox.Session) -> str:
    """Return how nox was started, for the commands that are printed to be pasted."""
    words = [sys.argv[0]]
    if Path(words[0]).name == "__main__.py":
        words = [sys.executable, "-m", "nox"]
    elif shutil.which(Path(words[0]).name) == words[0]:
        words = [Path(words[0]).name]
    return shlex.join(words if session.virtualenv.is_sandboxed else [*words, "--no-venv"])


def run(session: nox.Session, command: str, *words: str, **variables: str) -> None:
    """Run a command of the session's environment; with `--no-venv` of the Python that runs nox."""
    variables["WARPLOG_NOX"] = started(session)
    if session.virtualenv.is_sandboxed:
        session.run(command, *words, env=variables)
        return
    here = Path(sys.executable).parent
    variables["PATH"] = os.pathsep.join([str(here), os.environ.get("PATH", "")])
    program = sys.executable if command == "python" else command
    if shutil.which(program, path=variables["PATH"]) is None:
        lacks = f"--no-venv: {sys.executable} has no {program}"
        session.error(f"{lacks}; install the list of pyproject.toml that has it, or use a venv")
    session.run(program, *words, env=variables, external=True)


def warplog(session: nox.Session, *words: str) -> None:
    """Run the warplog command in the session's Python, from this checkout."""
    run(session, "python", "-m", "warplog", *words, *session.posargs)


@nox.session
def reproduce(session: nox.Session) -> None:
    """Measure an entry again: -s reproduce -- <entry> [--publish]; without one, list them."""
    named = [Path(word).stem for word in session.posargs]
    folders = (path.name for path in sorted(ROOT.glob("artifacts/*")))
    own = [slug for slug in folders if any(name.endswith(slug) for name in named)]
    measuring(session, own)
    on_cluster(session)
    warplog(session, "reproduce")


@nox.session
def verify(session: nox.Session) -> None:
    """Measure every artifact again on the GPUs present, or a cluster's: -s verify -- [--on ADDRESS]."""
    measuring(session)
    on_cluster(session)
    warplog(session, "verify")


@nox.session
def sanitize(session: nox.Session) -> None:
    """Look for memory faults and races on a GPU at tiny sizes: -s sanitize -- [<entry>]; all without."""
    measuring(session)
    warplog(session, "sanitize")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests, or some: -s tests -- -k <slug>. Needs no GPU; skips what needs Chromium or Java."""
    measuring(session)
    install(session, "-e", ".[site,test]")
    if session.posargs:  # some of the tests cover some of the code
        run(session, "python", "-m", "pytest", *session.posargs)
        return
    run(session, "python", "-m", "coverage", "erase")
    run(session, "python", "-m", "coverage", "run", "-m", "pytest")
    run(session, "python", "-m", "coverage", "combine", "-q")
    run(session, "python", "-m", "coverage", "report")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types, import contracts and spelling."""
    install(session, "-e", ".[site,lint]")
    run(session, "ruff", "check", ".")
    run(session, "ruff", "format", "--check", ".")
    run(session, "mypy")
    run(session, "lint-imports")
    run(session, "codespell")


@nox.session
def check(session: nox.Session) -> None:
    """Check entries, claims, records and staleness; needs no GPU and no torch."""
    install(session, "-e", ".")
    warplog(session, "check")


@nox.session
def fill(session: nox.Session) -> None:
    """Write the measured numbers into the entries' text from the published records."""
    install(session, "-e", ".")
    warplog(session, "fill")


@nox.session
def site(session: nox.Session) -> None:
    """Build the site, strictly, into site/."""
    install(session, "-e", ".[site]")
    run(session, "mkdocs", "build", "--strict", *session.posargs, **QUIET)


@nox.session
def serve(session: nox.Session) -> None:
    """Serve the site; an edit to an entry, a record or a kernel shows within a second."""
    install(session, "-e", ".[site]")
    run(session, "mkdocs", "serve", "--no-strict", *session.posargs, **QUIET)


@nox.session
def scale(session: nox.Session) -> None:
    """Measure builds of 1,000 entries beside bare mkdocs-material; with `live`, how soon edits show."""
    install(session, "-e", ".[site,test]")
    run(session, "python", "tests/scale.py", *session.posargs)


@nox.session
def draft(session: nox.Session) -> None:
    """Make a draft from a coding agent's transcript, without its secrets: -s draft -- FILE."""
    install(session, "-e", ".[draft]")
    warplog(session, "draft")


@nox.session
def new(session: nox.Session) -> None:
    """Write a draft and its artifact, right as they are: -s new -- "Title"; it asks the rest."""
    install(session, "-e", ".")
    warplog(session, "new")


@nox.session(name="verify-record")
def verify_record(session: nox.Session) -> None:
    """Check a record that someone offers, without a GPU: -s verify-record -- FILE."""
    install(session, "-e", ".")
    warplog(session, "verify-record")


@nox.session(name="compare-records")
def compare_records(session: nox.Session) -> None:
    """Say what tells two records of one artifact apart: -s compare-records -- FILE FILE."""
    install(session, "-e", ".")
    warplog(session, "compare-records")
