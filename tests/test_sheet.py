"""A page of ours is one token, and its title can close no tag of a template."""

import yaml

from warplog.placeholder import substitute
from warplog.sheet import section, sheet


def meta(page):
    return yaml.safe_load(page.markdown.split("---\n")[1])


def test_markdown_sees_one_token_alone():
    page = sheet("Title", "About", "<p>*not* Markdown</p>")
    (token,) = page.html
    assert page.markdown.endswith(f"---\n\n\n{token}\n\n")
    assert substitute(f"<p>{token}</p>", page.html) == "<p>*not* Markdown</p>"


def test_the_search_leaves_it_out():
    assert meta(sheet("Title", "About", "x"))["search"] == {"exclude": True}


def test_a_title_closes_no_tag_even_where_a_template_undoes_an_escape():
    title = meta(sheet('</title><script>"\x00\n---\n', "About", "x"))["title"]
    assert not set(title) & set('<>"\x00\n')


def test_a_title_of_ten_thousand_characters_is_cut():
    assert len(meta(sheet("x" * 10_000, "About", "x"))["title"]) < 300


def test_emoji_in_a_title_survive_the_front_matter():
    assert meta(sheet("🚀 GPU", "About", "x"))["title"] == "🚀 GPU"


def test_a_page_that_is_no_tab_names_the_one_it_belongs_to():
    assert meta(sheet("Title", "About", "x", tab="gpus.md"))["tab"] == "gpus.md"
    assert "tab" not in meta(sheet("Title", "About", "x"))


def test_a_section_leads_to_itself_and_escapes_its_title():
    html = section("y2026", "<2026>", "<p>x</p>")
    assert html.startswith('<h2 id="y2026">&lt;2026&gt;<a class="headerlink" href="#y2026"')
