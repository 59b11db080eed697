"""The site as built with its theme and search: what is found, what is shown, what stands beside a link."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from factory import FRONT, lab_with_entry, timed
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.utils.yaml import yaml_load

from warplog import finder, plugin
from warplog.plugin import WarplogPlugin

ROOT = Path(__file__).parents[1]
SITE_URL = "https://log.example/sub/"
BODY = """
## The idea

We asked whether [?](#fast) holds, in [?](#time), with `cp.async` and `_STERound`.

## The code

```source
file: kernel.py
region: kernel
```
"""
KERNEL = "# region: kernel\nx = tl.load(p, num_stages=3)\nwait_group(0)\n# endregion\n"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = lab_with_entry(tmp_path_factory.mktemp("search") / "lab")
    shutil.rmtree(lab.root / "artifacts" / "row-sum" / "records")
    lab.publish(lab.artifact(kernel=KERNEL), timed(batch=31))
    lab.entry(FRONT, BODY)
    shutil.copytree(ROOT / "site_src", lab.root / "site_src")
    settings = yaml_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings |= {"site_url": SITE_URL, "strict": False}
    settings["theme"]["custom_dir"] = str(lab.root / "site_src" / "theme")
    settings["plugins"] = [each for each in settings["plugins"] if "search" in each]
    (lab.root / "mkdocs.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return lab


@pytest.fixture(scope="module")
def site(lab):
    """The folder of the built site."""
    return built(lab)


def built(lab):
    config = load_config(str(lab.root / "mkdocs.yml"))
    config.plugins["warplog"] = WarplogPlugin()
    build(config)
    return Path(config.site_dir)


@pytest.fixture(scope="module")
def index(site):
    """The search index by location."""
    found = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    return {each["location"]: each for each in found["docs"]}


def terms(text, site):
    """The words of a text as the theme's search splits them."""
    found = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert found["config"]["pipeline"] == ["stopWordFilter"]  # a stemmer would cut num_stages
    plain = re.sub("<[^>]*>", "\n", text)
    return {each.lower() for each in re.split(found["config"]["separator"], plain)}


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["h200", "sentence"], ""),
        (["cp.async", "async", "_steround", "steround", "ste", "round"], "#the-idea"),
        (["tl.load", "load", "num_stages", "stages", "wait_group", "group"], "#the-code"),
        (["kernel", "ten", "times", "faster"], "#claims"),
    ],
)
def test_a_word_leads_to_the_section_that_has_it(index, site, words, where):
    text = index[f"entries/one-sum.html{where}"]["text"]
    assert set(words) <= terms(text, site)


def test_a_name_at_the_end_of_a_sentence_is_the_name(site):
    assert terms("See tl.load. And 3.5, cp.async! a&lt;b", site) >= {
        "tl.load",
        "3.5",
        "cp.async",
        "b",
    }


def test_the_page_itself_is_whole(site):
    page = (site / "entries" / "one-sum.html").read_text(encoding="utf-8")
    assert "2.11.0" in page  # the environment, which the index leaves out
    assert 'class="wl-value"' in page
    assert "<p>NVIDIA H200, row-sum</p>" not in page


def test_what_the_index_leaves_out(index):
    entry = "".join(each["text"] for place, each in index.items() if "one-sum" in place)
    assert "2.11.0" not in entry
    assert "0)\n" not in entry
    assert not any(place.startswith("index.html") for place in index)


def test_the_titles_and_tags_of_an_entry_are_in_the_index(index):
    assert index["entries/one-sum.html"]["title"] == "One sum is enough"
    assert index["entries/one-sum.html"]["tags"] == ["pytorch", "sums"]


def test_a_large_journal_is_searched_in_brief(lab, monkeypatch):
    briefs = []
    whole = finder.reduced
    monkeypatch.setattr(finder, "BRIEF_FROM", 0)
    monkeypatch.setattr(
        plugin.finder,
        "reduced",
        lambda *given, brief: briefs.append(brief) or whole(*given, brief=brief),
    )
    built(lab)
    assert briefs == [True]


def test_a_link_to_an_entry_shows_its_card(site):
    page = (site / "entries" / "one-sum.html").read_text(encoding="utf-8")
    card = re.search(r'property="og:image" content="https://log.example/sub/([^"]+)"', page)
    assert (site / card[1]).read_bytes().startswith(b"\x89PNG")
    assert 'property="og:image:alt" content="One sum is enough; NVIDIA H200: 12' in page
    assert '<meta name="description" content="One sentence for the index.">' in page
    assert '<link rel="canonical" href="https://log.example/sub/entries/one-sum.html">' in page


def test_any_other_page_shows_the_card_of_the_site(site):
    page = (site / "method.html").read_text(encoding="utf-8")
    card = re.search(r'property="og:image" content="https://log.example/sub/([^"]+)"', page)
    assert (site / card[1]).read_bytes().startswith(b"\x89PNG")


def test_every_page_names_the_feeds_and_they_are_there(site):
    page = (site / "entries" / "one-sum.html").read_text(encoding="utf-8")
    feeds = re.findall(r'<link rel="alternate"[^>]*href="([^"]+)"', page)
    assert len(feeds) == 2
    for feed in feeds:
        assert (site / "entries" / feed).resolve().is_file()


def test_what_a_feed_and_a_guide_name_is_there(site):
    """Every whole address that leaves the site leads to a file of it."""
    names = [
        "feed_rss_created.xml",
        "feed_json_created.json",
        "llms.txt",
        "site.json",
        "robots.txt",
    ]
    for name in names:
        text = (site / name).read_text(encoding="utf-8")
        for address in re.findall(rf"{SITE_URL}([^\s\"<>)#]*)", text):
            assert address == "" or (site / address).is_file(), (name, address)
