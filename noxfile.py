"""The contributor's menu: `nox --list` shows it, `nox -s <session>` does it.

Where torch is already installed and nothing can be downloaded, add `--no-venv`: the session then runs
in the Python that runs nox, and installs nothing.
"""

import shutil
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["tests", "lint", "check", "site"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_external_run = True

ROOT = Path(__file__).parent
QUIET = {"NO_MKDOCS_2_WARNING": "1"}
CONSTRAINTS = ROOT / "constraints"
HAS_GPU = Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def install(session: nox.Session, *what: str, constraints: str = "cpu") -> None:
    """Install `what` under the constraints file for this use, unless nox was told `--no-venv`."""
    if session.virtualenv.is_sandboxed:
        session.install("-q", "-c", str(CONSTRAINTS / f"{constraints}.txt"), *what)


def warplog(session: nox.Session, *words: str) -> None:
    """Run the warplog command in the session's Python, from this checkout."""
    session.run("python", "-m", "warplog", *words, external=not session.virtualenv.is_sandboxed)


def measuring(session: nox.Session, requirements: list[Path]) -> None:
    """Install what measuring needs: torch and triton (CUDA builds on a GPU), an artifact's own."""
    needs = [word for path in requirements for word in ("-r", str(path))]
    install(session, "-e", ".[measure]", *needs, constraints="gpu" if HAS_GPU else "cpu")


@nox.session
def reproduce(session: nox.Session) -> None:
    """Measure an entry again: nox -s reproduce -- <entry> [--publish]; without one, list them."""
    named = {Path(word).stem for word in session.posargs}
    folders = [path.parent for path in ROOT.glob("artifacts/*/requirements.txt")]
    own = [folder for folder in folders if any(folder.name in name for name in named)]
    measuring(session, [folder / "requirements.txt" for folder in own])
    warplog(session, "reproduce", *session.posargs)


@nox.session
def verify(session: nox.Session) -> None:
    """Measure every artifact again on the GPUs present; a summary at the end."""
    measuring(session, sorted(ROOT.glob("artifacts/*/requirements.txt")))
    warplog(session, "verify", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests; they need no GPU."""
    measuring(session, sorted(ROOT.glob("artifacts/*/requirements.txt")))
    install(session, "-e", ".[site,test]")
    external = not session.virtualenv.is_sandboxed
    session.run("coverage", "erase", external=external)
    session.run("coverage", "run", "-m", "pytest", *session.posargs, external=external)
    session.run("coverage", "combine", "-q", external=external)
    session.run("coverage", "report", external=external)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types, import contracts and spelling."""
    install(session, "-e", ".[site,lint]")
    for words in (
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy"],
        ["lint-imports"],
        ["codespell"],
    ):
        session.run(*words, external=not session.virtualenv.is_sandboxed)


@nox.session
def check(session: nox.Session) -> None:
    """Check entries, claims, records and staleness; needs no GPU and no torch."""
    install(session, "-e", ".")
    warplog(session, "check", *session.posargs)


@nox.session
def fill(session: nox.Session) -> None:
    """Write the measured numbers into the entries' text from the published records."""
    install(session, "-e", ".")
    warplog(session, "fill", *session.posargs)


@nox.session
def site(session: nox.Session) -> None:
    """Build the site, strictly, into site/."""
    install(session, "-e", ".[site]")
    external = not session.virtualenv.is_sandboxed
    session.run("mkdocs", "build", "--strict", *session.posargs, env=QUIET, external=external)


@nox.session
def serve(session: nox.Session) -> None:
    """Serve the site and rebuild it when an entry, a record or a kernel changes."""
    install(session, "-e", ".[site]")
    external = not session.virtualenv.is_sandboxed
    session.run("mkdocs", "serve", *session.posargs, env=QUIET, external=external)


@nox.session
def new(session: nox.Session) -> None:
    """Start an entry: nox -s new -- "Title"."""
    install(session, "-e", ".")
    warplog(session, "new", *session.posargs)
