"""The files of both sites, without a browser: where addresses lead, and what could run."""

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import material
import pytest

from .built import Built
from .conftest import ROOT
from .findings import nothing
from .laboratory import DRAFTED

DATA = {"application/json", "application/ld+json"}
RUNS = re.compile(
    r"[\s\x00-\x1f]*(?:java|vb)[\s\x00-\x1f]*script[\s\x00-\x1f]*:|data:text/html", re.IGNORECASE
)
INLINE = re.compile(r"<script[^>]*>(.*?)</script>", re.DOTALL)
ACTIVE = {"iframe", "object", "embed", "applet", "base", "frame", "portal"}
OWN = ROOT / "site_src"
THEMES_OWN = Path(material.__file__).parent / "templates"


def test_every_address_of_the_site_leads_somewhere(site):
    nothing(site.broken())


def test_no_id_is_written_twice(site):
    twice = [
        f"{page}: {each}"
        for page in site.pages
        for each in set(site.parsed(page).ids)
        if site.parsed(page).ids.count(each) > 1
    ]
    nothing(twice)


def active(site):
    """Whatever on the pages of a site could run and is neither the theme's nor ours."""
    for page in site.pages:
        parsed = site.parsed(page)
        for line, tag, name, value in parsed.attributes:
            if name.startswith("on") or name in {"srcdoc", "ping"}:
                yield f"{page}:{line}: <{tag} {name}={value[:60]!r}>"
            elif RUNS.match(value):
                yield f"{page}:{line}: <{tag} {name}={value[:60]!r}> runs"
        yield from (f"{page}: <{tag}>" for tag in sorted(ACTIVE & set(parsed.tags)))
        for meta in parsed.metas:
            if meta.get("http-equiv", "").lower() == "refresh":
                yield f"{page}: a page that leads elsewhere by itself"
        yield from (
            f"{page}:{script.line}: an unknown program {script.address or script.text[:60]!r}"
            for script in parsed.scripts
            if not known(script, site, page)
        )


def known(script, site, page):
    """Whether a program is data, stands word for word in a template, or is a file as we or the theme
    have it.
    """
    if script.address is None:
        templates = programs()
        return script.kind in DATA or script.text.strip() in templates
    path = urlsplit(urljoin(f"http://site/{page}", script.address))
    name = path.path.removeprefix("/")
    origins = [folder / name for folder in (OWN, THEMES_OWN) if (folder / name).is_file()]
    same = [each for each in origins if each.read_bytes() == (site.root / name).read_bytes()]
    return path.netloc == "site" and bool(same)


@cache
def programs():
    """The inline programs in the templates of the theme's folder, as they are."""
    templates = [path.read_text(encoding="utf-8") for path in OWN.rglob("theme/**/*.html")]
    return {text.strip() for each in templates for text in INLINE.findall(each)}


def policy(site, page):
    """The directives of a page's policy, which must stand before everything that it rules."""
    html = site.text(page)
    metas = site.parsed(page).metas
    found = [each for each in metas if each.get("http-equiv") == "Content-Security-Policy"]
    assert len(found) == 1, page
    before = html[: html.index("Content-Security-Policy")]
    assert not re.search(r"<(?:script|link|style|body)", before), page
    parts = [each.split() for each in found[0]["content"].split(";") if each.strip()]
    return {name: set(values) for name, *values in parts}


def test_a_policy_lets_only_known_programs_run(site):
    for page in site.pages:
        rules = policy(site, page)
        for name in ("default-src", "script-src"):
            loose = {each for each in rules[name] if each not in {"'self'", "file:"}}
            assert all(each.startswith("'sha256-") for each in loose), (page, name)
        assert rules["object-src"] == rules["base-uri"] == {"'none'"}
        for script in site.parsed(page).scripts:
            if script.address is None and script.kind not in DATA:
                digest = b64encode(sha256(script.text.encode()).digest()).decode()
                assert f"'sha256-{digest}'" in rules["script-src"], f"{page}:{script.line}"


def test_nothing_on_a_page_runs_but_the_theme_and_our_own_files(site):
    nothing(active(site))


def test_every_resource_is_loaded_from_the_site(site):
    """A link may lead elsewhere; what a browser fetches by itself may not."""
    foreign = [
        f"{page}:{each.line}: <{each.tag} {each.attribute}={each.address!r}>"
        for page in site.pages
        for each in site.parsed(page).references
        if re.match(r"(?:[a-z]+:)?//", each.address)
        and each.tag != "a"
        and not (each.tag == "link" and "/warplog.example/" in each.address)
    ]
    nothing(foreign)


def test_a_draft_leaves_no_trace(lab):
    pages = [path for path in lab.root.rglob("*") if path.is_file()]
    assert not [path for path in pages if DRAFTED.encode() in path.read_bytes()]


def test_every_entry_of_the_lab_is_a_page_and_the_draft_is_none(lab):
    slugs = {"plain", "hostile", "long", "second", "stale"}
    assert {f"entries/{slug}.html" for slug in slugs} <= set(lab.entries)
    assert "entries/draft.html" not in lab.pages


PAGE = "<!doctype html><title>x</title><body>{}"


@pytest.mark.parametrize(
    "html",
    [
        '<a href="gone.html">x</a>',
        '<a href="#gone">x</a>',
        '<a href="other.html#gone">x</a>',
        '<a href="folder/">x</a>',
        '<a href="/other.html">x</a>',
        '<img src="gone.png">',
        '<img srcset="other.html 1x, gone.png 2x">',
        '<link rel="canonical" href="https://warplog.example/gone.html">',
        "<p style=\"background: url('gone.png')\">",
    ],
)
def test_an_address_that_leads_nowhere_is_found(tmp_path, html):
    (tmp_path / "page.html").write_text(PAGE.format(html), encoding="utf-8")
    (tmp_path / "other.html").write_text(PAGE.format("<p id=here>"), encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/index.html").write_text(PAGE.format(""), encoding="utf-8")
    assert len(Built(tmp_path).broken()) == 1


def test_an_address_that_leads_somewhere_is_no_finding(tmp_path):
    links = "page.html", "#", "other.html#here", "folder/index.html", "mailto:a@example.org"
    links += "https://example.org/x", "https://warplog.example/", "?query#own", "other.html?a=b"
    html = "".join(f'<a href="{each}">x</a>' for each in links) + "<p id=own>"
    (tmp_path / "page.html").write_text(PAGE.format(html), encoding="utf-8")
    (tmp_path / "other.html").write_text(PAGE.format("<p id=here>"), encoding="utf-8")
    (tmp_path / "index.html").write_text(PAGE.format(""), encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/index.html").write_text(PAGE.format(""), encoding="utf-8")
    assert Built(tmp_path).broken() == []


@pytest.mark.parametrize(
    "html",
    [
        '<p onclick="x">',
        '<a href="java\nscript:x">x</a>',
        "<script>x</script>",
        '<script src="https://example.org/x.js"></script>',
        '<script src="page.html"></script>',
        "<iframe></iframe>",
        '<base href="x">',
        '<meta http-equiv="refresh" content="0; url=x">',
    ],
)
def test_what_could_run_is_found(tmp_path, html):
    (tmp_path / "page.html").write_text(PAGE.format(html), encoding="utf-8")
    assert len(list(active(Built(tmp_path)))) == 1
