"""A build with what an earlier one kept makes the same site, and hears the same warnings."""

import shutil
from pathlib import Path

import pytest
import yaml
from factory import BODY, FRONT, lab_with_entry
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort
from mkdocs.plugins import PluginCollection
from mkdocs.utils.yaml import yaml_load

from warplog import bindery
from warplog.plugin import WarplogPlugin

ROOT = Path(__file__).parents[1]
TWO = "2026-12-09-two.md"


@pytest.fixture
def lab(tmp_path):
    """A repository with the real pages of the site, a plain theme, and two entries that know each other."""
    lab = lab_with_entry(tmp_path / "lab")
    shutil.copytree(ROOT / "site_src", lab.root / "site_src")
    settings = yaml_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings |= {"theme": {"name": "mkdocs"}, "plugins": []}
    (lab.root / "mkdocs.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    lab.entry(
        FRONT.replace("12-02", "12-09"),
        f"{BODY}\n## More\n\nSee [one](2026-12-02-one-sum.md#claims) and [here](#more).\n",
        TWO,
    )
    return lab


@pytest.fixture
def built(lab, monkeypatch):
    """Builds the site in a fresh plugin and returns every file of it."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")

    def built():
        config = load_config(str(lab.root / "mkdocs.yml"))
        config.plugins = PluginCollection()
        config.plugins["warplog"] = WarplogPlugin()
        build(config)
        site = Path(config.site_dir)
        found = sorted(path for path in site.rglob("*") if path.is_file())
        return {path.relative_to(site).as_posix(): path.read_bytes() for path in found}

    return built


@pytest.fixture
def rendered(monkeypatch):
    """The entries whose prose was rendered, in order."""
    places = []
    refuse = bindery.pages.refuse_active

    def noted(html, page, place):
        places.append(place)
        return refuse(html, page, place)

    monkeypatch.setattr(bindery.pages, "refuse_active", noted)
    return places


def test_the_second_build_renders_nothing_and_makes_the_same_site(lab, built, rendered):
    first = built()
    assert sorted(rendered) == ["entries/2026-12-02-one-sum.md", f"entries/{TWO}"]
    rendered.clear()
    assert built() == first
    assert rendered == []
    shutil.rmtree(lab.root / ".cache")
    assert built() == first


def test_an_edit_is_rendered_and_nothing_else(lab, built, rendered):
    built()
    rendered.clear()
    lab.entry(body=BODY + "\nAn edit.\n")
    assert b"An edit." in built()["entries/one-sum.html"]
    assert rendered == ["entries/2026-12-02-one-sum.md"]


def test_other_settings_of_markdown_render_all_anew(lab, built, rendered):
    built()
    rendered.clear()
    path = lab.root / "mkdocs.yml"
    path.write_text(path.read_text().replace("permalink: true", "permalink: '#'"))
    built()
    assert len(rendered) == len(["one", "two"])


def test_a_page_that_links_to_others_is_rendered_anew_where_they_are_others(lab, built, rendered):
    built()
    rendered.clear()
    lab.entry(FRONT.replace("12-02", "12-10"), BODY, "2026-12-10-three.md")
    built()
    assert sorted(rendered) == [f"entries/{TWO}", "entries/2026-12-10-three.md"]


@pytest.mark.parametrize(
    "link", ["(nowhere.md)", "(/nowhere.md)", "(2026-12-02-one-sum.md#nowhere)"]
)
def test_a_link_that_leads_nowhere_is_heard_at_every_build(lab, built, caplog, link):
    text = (lab.root / "entries" / TWO).read_text()
    (lab.root / "entries" / TWO).write_text(text + f"\n[x]{link}\n")
    for _ in range(2):
        caplog.clear()
        with pytest.raises(Abort):
            built()
        assert "nowhere" in caplog.text


def test_an_anchor_that_goes_is_heard_by_the_kept_page_that_links_to_it(lab, built, caplog):
    text = (lab.root / "entries" / TWO).read_text()
    (lab.root / "entries" / TWO).write_text(text.replace("#claims", "#a-heading"))
    lab.entry(body=BODY + "\n## A heading\n\nWords.\n")
    built()
    lab.entry(body=BODY + "\n## Another heading\n\nWords.\n")
    with pytest.raises(Abort):
        built()
    assert "a-heading" in caplog.text
