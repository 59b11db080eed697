"""The frame of every page: what it may load, what it says to machines, and colours that can be read."""

import base64
import hashlib
import os
import re
import shutil
from pathlib import Path

os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")

import material
import pytest
import yaml
from factory import FRONT, lab_with_entry
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.plugins import PluginCollection
from mkdocs.utils.yaml import yaml_load

from warplog.plugin import WarplogPlugin

ROOT = Path(__file__).parents[1]
THEME = ROOT / "site_src/theme"
FONTS = ROOT / "site_src/assets/fonts"
THEIRS = Path(material.__file__).parent / "templates"
OWN = {"partials/policy.html", "partials/javascripts/early.html"}
BASE = (ROOT / "site_src/style/1-base.css").read_text(encoding="utf-8")
_TEXTS = {".html", ".json", ".txt", ".xml"}
FIRST_LOADED = ["serif", "serif-italic", "sans", "mono"]


def built(root, **changed):
    """The folder of a site with our theme and two entries, built with `changed` settings."""
    lab = lab_with_entry(root / "lab")
    later = FRONT.replace("title: One sum is enough", 'title: Tom & "Jerry" again')
    first = next((lab.root / "entries").glob("*.md"))
    text = (
        first.read_text(encoding="utf-8").replace(FRONT, later).replace("2026-12-02", "2026-12-03")
    )
    (lab.root / "entries/2026-12-03-again.md").write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "site_src", lab.root / "site_src")
    settings = yaml_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings["theme"]["custom_dir"] = str(lab.root / "site_src/theme")
    settings |= {"plugins": ["search", "offline"], "strict": False, **changed}
    (lab.root / "mkdocs.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    config = load_config(str(lab.root / "mkdocs.yml"))
    plugins = PluginCollection()
    plugins["warplog"] = WarplogPlugin()
    for name, plugin in config.plugins.items():
        plugins[name] = plugin
    config.plugins = plugins
    build(config)
    return Path(config.site_dir)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return built(tmp_path_factory.mktemp("theme"))


@pytest.fixture(scope="module")
def pages(site):
    found = {page.relative_to(site).as_posix(): page for page in site.rglob("*.html")}
    return {name: page.read_text(encoding="utf-8") for name, page in found.items()}


def policy(text):
    """The sources that a page allows itself, by directive."""
    content = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    return {words[0]: set(words[1:]) for words in map(str.split, content.split(";"))}


def digest(script):
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def test_a_page_allows_its_inline_scripts_and_no_other(pages):
    for name, text in pages.items():
        scripts = {
            digest(script) for script in re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
        }
        assert policy(text)["script-src"] - {"'self'", "file:"} == scripts, name


def test_a_page_may_load_only_what_lies_beside_it(pages):
    for name, text in pages.items():
        allowed = policy(text)
        assert allowed.pop("style-src-attr") == {"'unsafe-inline'"}
        assert allowed["default-src"] == {"'self'", "file:"}, name
        sources = set.union(*allowed.values())
        others = {each for each in sources if not each.startswith("'sha256-")}
        assert others == {"'self'", "'none'", "file:", "data:"}, name
        assert {key for key in allowed if "data:" in allowed[key]} == {"img-src"}, name


def test_no_page_names_a_script_a_style_or_an_image_of_another_site(pages):
    for name, text in pages.items():
        loaded = re.findall(r"<(?:script|img|iframe|source)\b[^>]*\ssrc=\"([^\"]*)\"", text)
        for link in re.findall(r"<link\b[^>]*>", text):
            if re.search(r'rel="(?:stylesheet|icon|preload|preconnect|prefetch)"', link):
                loaded += re.findall(r'href="([^"]*)"', link)
        assert len(loaded) > 3, name
        assert [each for each in loaded if "//" in each] == [], name


def test_while_serving_the_script_that_reloads_a_page_may_run(tmp_path):
    text = (built(tmp_path, site_url="http://127.0.0.1:8000/") / "index.html").read_text("utf-8")
    assert "Content-Security-Policy" not in text


def test_what_an_entry_is_called_is_escaped_once(pages):
    text = pages["entries/again.html"]
    for tag in ["<title>{} · Warplog</title>", '<meta property="og:title" content="{}">']:
        assert tag.format("Tom &amp; &#34;Jerry&#34; again") in text


def test_an_entry_leads_to_its_neighbours(pages):
    earlier, later = pages["entries/one-sum.html"], pages["entries/again.html"]
    assert '<link rel="next" href="again.html">' in earlier
    assert '<link rel="prev" href="one-sum.html">' in later
    assert re.search(
        r'<a href="one-sum.html"><span>Earlier entry</span> One sum is enough</a>', later
    )
    assert "Later entry" not in later
    assert "Earlier entry" not in pages["method.html"]


def test_an_entry_stands_under_the_list_of_entries(pages):
    active = r'md-tabs__item--active">\s*<a href="\.\./index.html"'
    assert re.search(active, pages["entries/one-sum.html"])


def test_a_page_without_a_file_finds_its_styles_from_any_depth(pages):
    links = re.findall(r'<(?:link rel="stylesheet" href|script src)="([^"]*)"', pages["404.html"])
    assert len(links) >= 4
    assert all(link.startswith("/") for link in links)


def test_a_link_to_the_repository_asks_nothing_of_its_host(tmp_path):
    site = built(tmp_path, repo_url="https://github.com/someone/something")
    text = (site / "entries/one-sum.html").read_text(encoding="utf-8")
    assert 'href="https://github.com/someone/something"' in text
    assert 'data-md-component="source"' not in text


def test_search_from_a_disk_has_its_index_and_its_worker(site, pages):
    assert (site / "search/search_index.js").read_text(encoding="utf-8").startswith("var __index")
    for name, text in pages.items():
        scripts = re.findall(r'<script src="([^"]*)"', text)
        names = [Path(each).name.split(".")[0] for each in scripts]
        assert names.index("iframe-worker") < names.index("bundle"), name


def test_what_we_put_in_the_place_of_the_themes_templates_is_still_one_of_them():
    ours = {path.relative_to(THEME).as_posix() for path in THEME.rglob("*.html")}
    assert [name for name in sorted(ours - OWN) if not (THEIRS / name).is_file()] == []


def test_the_themes_script_finds_every_helper_that_its_own_template_defines():
    theirs = (THEIRS / "partials/javascripts/base.html").read_text(encoding="utf-8")
    ours = (THEME / "partials/javascripts/early.html").read_text(encoding="utf-8")
    helpers = set(re.findall(r"\b(__md_\w+)=", theirs))
    assert len(helpers) >= 4
    assert helpers <= set(re.findall(r"var (__md_\w+) =", ours))


def test_every_font_that_the_styles_name_is_here_with_a_licence():
    named = set(re.findall(r'url\("fonts/([^"]+)"\)', BASE))
    assert named == {path.name for path in FONTS.glob("*.woff2")}
    licences = list(FONTS.glob("OFL-*.txt"))
    assert len(licences) == 3
    for licence in licences:
        assert "SIL OPEN FONT LICENSE Version 1.1" in licence.read_text(encoding="utf-8")


def test_the_fonts_of_a_page_weigh_at_most_110_kilobytes():
    assert sum((FONTS / f"{name}.woff2").stat().st_size for name in FIRST_LOADED) <= 110_000


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    darker, lighter = sorted([luminance(one), luminance(other)])
    return (lighter + 0.05) / (darker + 0.05)


TOKENS = {
    name: {"light": light, "dark": dark}
    for name, light, dark in re.findall(
        r"--wl-([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", BASE
    )
}
WORDS = [name for name in TOKENS if not re.search(r"paper|panel|rule|tint", name)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("word", WORDS)
def test_every_colour_of_text_can_be_read_on_paper_on_panels_and_on_its_tint(word, scheme):
    grounds = ["paper", "panel", *([f"{word}-tint"] if f"{word}-tint" in TOKENS else [])]
    for ground in grounds:
        assert contrast(TOKENS[word][scheme], TOKENS[ground][scheme]) >= 4.5, ground


def test_the_colours_that_are_checked_are_all_that_there_are():
    assert len(WORDS) == 13
    assert set(re.findall(r"--wl-([\w-]+): light-dark", BASE)) == set(TOKENS)


def test_a_site_without_an_address_leads_to_no_feed(tmp_path, caplog):
    caplog.set_level("INFO")
    site = built(tmp_path, site_url="")
    assert caplog.text.count("SITE_URL is not set, so there are no feeds, no sitemap") == 1
    for name in ("index.html", "404.html"):
        assert "feed" not in (site / name).read_text("utf-8")
    assert not list(site.glob("feed*"))
    assert not list(site.glob("sitemap*"))
    texts = (path.read_text("utf-8") for path in site.iterdir() if path.suffix in _TEXTS)
    assert not [text for text in texts if ".example" in text or "og:image" in text]


def test_a_site_with_an_address_has_a_sitemap_and_says_nothing(tmp_path, caplog):
    caplog.set_level("INFO")
    site = built(tmp_path, site_url="https://log.example/")
    assert "https://log.example/entries/" in (site / "sitemap.xml").read_text("utf-8")
    assert "SITE_URL" not in caplog.text


def test_the_site_of_this_repository_has_an_address_only_if_it_is_given_one(monkeypatch):
    for address in ("", "https://log.example/"):
        monkeypatch.setenv("SITE_URL", address)
        assert (load_config(str(ROOT / "mkdocs.yml")).site_url or "") == address
    monkeypatch.delenv("SITE_URL")
    assert not load_config(str(ROOT / "mkdocs.yml")).site_url
