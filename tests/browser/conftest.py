"""The two sites that the tests look at, built once each, and the browser that looks."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .built import SITE_URL, Built
from .laboratory import laboratory
from .needs import package, program
from .serving import served

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing leaves this machine
    "--no-first-run",
]


def build(settings, out):
    """Build the site of the file `settings` into `out`, strictly."""
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "SITE_URL": SITE_URL}
    variables.pop("REPO_URL", None)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", settings, "-d", out]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"the site does not build:\n{done.stdout}{done.stderr}"[-6000:])
    return Built(out)


@pytest.fixture(scope="session")
def journal(tmp_path_factory):
    """The site of this repository."""
    return build(ROOT / "mkdocs.yml", tmp_path_factory.mktemp("journal"))


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """The site of a repository in which every field is hostile, beside a plain entry."""
    folder = tmp_path_factory.mktemp("lab")
    laboratory(folder, ROOT)
    return build(folder / "mkdocs.yml", tmp_path_factory.mktemp("lab-site"))


@pytest.fixture(scope="session")
def journal_url(journal):
    """Where the journal is served."""
    with served(journal.root) as top:
        yield top


@pytest.fixture(scope="session")
def lab_url(lab):
    """Where the lab is served."""
    with served(lab.root) as top:
        yield top


@pytest.fixture(scope="session", params=["journal", "lab"])
def _name(request):
    return request.param


@pytest.fixture(scope="session")
def site(request, _name):
    """Each of the two sites."""
    return request.getfixturevalue(_name)


@pytest.fixture(scope="session")
def top(request, _name):
    """Where the same site is served."""
    return request.getfixturevalue(f"{_name}_url")


@pytest.fixture
def serve():
    """A function that serves a folder until the test ends, and returns its address."""
    with contextlib.ExitStack() as stack:
        yield lambda folder: stack.enter_context(served(folder))


@pytest.fixture(scope="package")
def browser():
    """One Chromium for all tests: the one that WARPLOG_CHROMIUM names, else the one on the PATH."""
    named = os.environ.get("WARPLOG_CHROMIUM")
    path = program(*([named] if named else NAMES))
    with package("playwright.sync_api").sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser):
    """A function that opens an address in a window of its own and returns the page."""
    contexts = []

    def open_page(url, *, width=1440, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.goto(url, wait_until="load")
        return page

    yield open_page
    for context in contexts:
        context.close()
