"""The page of an entry: prose with measured numbers, figures and code, and nothing that runs."""

import json
import re
from html import unescape

import msgspec
import pytest
from factory import BODY, FRONT, KERNEL, Lab, lab_with_entry, measured, record_of, timed
from pages import EVIL, Tags, page_of, publish_b200, publish_evil, publish_later, shown

from warplog.block import SourceBlock, excerpt
from warplog.fault import Fault
from warplog.page import refuse_active
from warplog.placeholder import Page, Tokens, substitute


@pytest.fixture
def lab(tmp_path):
    return lab_with_entry(tmp_path / "lab")


def test_only_the_authors_prose_passes_through_markdown(lab):
    """What is not prose is a token; tables, code and numbers never meet Markdown."""
    page = page_of(lab)
    assert "<" not in page.markdown
    assert "We asked whether" in page.markdown
    assert KERNEL.splitlines()[0] not in page.markdown


def test_a_number_in_prose_says_interval_device_runs_and_record(lab):
    """The link itself has the title, so that a screen reader has it too."""
    text = shown(lab)
    assert (
        '<a class="wl-value" href="#time" title="9.90–10.1 µs over 6 runs on NVIDIA H200; '
        'latency of kernel, batch=31; record of 2026-12-02T10:15:00Z">10.0\u00a0µs</a>'
    ) in text


def test_a_number_whose_claim_is_refuted_says_so_beside_it(lab):
    assert "wl-against" not in shown(lab)
    lab.entry(FRONT.replace("at_least: 10", "at_least: 100"))
    assert re.search(r'; its claim is refuted">12×<sup class="wl-against" role="img"', shown(lab))


def test_the_page_shows_the_record_and_not_the_text_of_the_link(lab):
    lab.entry(body=BODY.replace("[?]", "[99×]"))
    assert "99×" not in shown(lab)


def test_a_number_that_was_not_measured_says_why_in_its_title(lab):
    lab.entry(FRONT.replace("{metric: latency", "{metric: roofline_fraction"))
    reason = "no record of the artifact ceilings for this device"
    assert f'href="#time" title="{reason}">not measured</a>' in shown(lab)


def test_every_link_within_the_page_leads_somewhere_and_no_anchor_is_given_twice(lab):
    """Headings are Markdown's, so their anchors are left out."""
    publish_b200(lab)
    block = "\n```source\nfile: kernel.py\n```\n"
    lab.entry(body=BODY + block + "\n```source\nfile: kernel.py\nregion: kernel\n```\n" + block)
    tags = Tags(shown(lab))
    assert tags.targets >= {"fast", "time", "kernel-py-L4", "kernel-py-2-L4", "kernel-py-3-L4"}
    assert tags.targets - set(tags.ids) == set()
    assert len(tags.ids) == len(set(tags.ids))


@pytest.mark.parametrize(
    "html",
    [
        "<script>x</script>",
        "<p onclick='x'>",
        '<a href="java&#115;cript:x">',
        '<a href="&#1;java&NewLine;script:x">',
        '<img src="data:image/svg+xml,x">',
        "<iframe></iframe>",
        "<object></object>",
        "<embed>",
        "<style></style>",
        "<form></form>",
        "<svg></svg>",
        "<p></script>",
        "<!--><img src=x onerror=y>-->",
        "<?x?>",
        "<!doctype html>",
        "<img src=x onerror=y",
        "<![x[",
    ],
)
def test_rendered_prose_that_would_run_is_refused(html):
    with pytest.raises(Fault, match=r"entries/x\.md: active HTML"):
        refuse_active(html, Page("", {}), "entries/x.md")


def test_rendered_prose_that_is_harmless_passes():
    html = (
        '<p id="a" style="text-align: right"><a href="../x/#y:z">a</a> &lt;script&gt; '
        '<a href="&#109;ailto:a@b">b</a><code>onclick=</code><!-- c --></p><ul><li>1 < 2</li></ul>'
    )
    refuse_active(html, Page("", {}), "entries/x.md")


@pytest.mark.parametrize(
    "html",
    ["<p></p>", '<p title="{0}">', "<pre>{0}</pre>", "<a>{0}</a>", "<h2>{0}</h2>", "{0}<b id={0}>"],
)
def test_a_number_that_does_not_stand_in_prose_is_refused_at_its_link(html):
    tokens = Tokens("x")
    token = tokens.inline("<b>7</b>")
    page = Page("", tokens.html, {token: "entries/x.md:7"})
    refuse_active(f"<ul><li><em>{token}</em></li></ul>", page, "entries/x.md")
    with pytest.raises(Fault, match=r"entries/x\.md:7: a measured number"):
        refuse_active(html.format(token), page, "entries/x.md")


def test_an_artifact_without_a_kernel_file_has_no_listing(lab):
    (lab.root / "artifacts/row-sum/kernel.py").unlink()
    assert "## Code" not in shown(lab)


def test_a_page_without_a_record_has_no_strip_and_no_provenance(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.artifact()
    figure = "kind: lines\nmetric: latency\naxis: batch\nsubjects: [kernel]\ntitle: Flat\n"
    lab.entry(body=f"{BODY}\n```figure\n{figure}```\n")
    text = shown(lab)
    assert "Figure 1, Flat, waits for a record" in text
    assert "{#provenance}" not in text
    assert "wl-strip" not in text


def test_a_figure_links_only_the_records_that_it_draws(lab):
    wrong = [measured("latency", "kernel", None, failed="differs", batch=31)]
    artifact = lab.repository.artifact("row-sum")
    lab.publish(artifact, wrong, device="nvidia-b200")
    figure = "kind: bars\nmetric: latency\naxis: batch\nsubjects: [kernel]\ntitle: Flat\n"
    lab.entry(body=f"{BODY}\n```figure\n{figure}```\n")
    (source,) = re.findall(r'<span class="wl-about">Source: (.*?)</span>', shown(lab))
    assert "nvidia-h200" in source
    assert "nvidia-b200" not in source


def test_what_is_related_ends_the_page(lab):
    assert "related" not in page_of(lab).markdown
    assert shown(lab, related="<nav>related</nav>").endswith("<nav>related</nav>\n\n")


def test_all_of_the_kernel_is_shown_where_the_entry_shows_no_source(lab):
    text = shown(lab)
    assert "## Code" in text
    assert text.count('class="wl-line"') == len(KERNEL.splitlines())


def test_blank_lines_before_the_end_of_a_region_are_not_shown(lab):
    text = "# region: a\n\nx = 1\n\n\n# endregion\n# region: b\n\n# endregion\n"
    artifact = lab.artifact(extra=text)
    assert excerpt(SourceBlock("extra.py", "a"), artifact).text == "\nx = 1"
    assert excerpt(SourceBlock("extra.py", "b"), artifact).text == ""


def test_a_region_is_shown_with_its_own_line_numbers(lab):
    lab.entry(body=BODY + "\n```source\nfile: kernel.py\nregion: kernel\n```\n")
    text = shown(lab)
    assert "## Code" not in text
    assert re.findall(r'data-line="(\d+)"', text) == ["4", "5"]
    assert "<span>region kernel</span><span>lines 4&ndash;5</span>" in text


def test_the_number_of_a_line_is_its_anchor_and_no_text(lab):
    """So that copying takes the code alone."""
    text = shown(lab)
    line = re.search(r'<span class="wl-line" id="kernel-py-L4">(.*?)\n</span>', text)[1]
    assert line.startswith(
        '<a href="#kernel-py-L4" tabindex="-1" aria-hidden="true" data-line="4"></a>'
    )
    code = re.search(r"<pre tabindex=\"0\"><code>(.*?)</code></pre>", text, re.DOTALL)[1]
    assert unescape(re.sub(r"<[^>]*>", "", code)) == KERNEL


def test_no_line_has_a_class_of_pygments(lab):
    assert not re.search(r'<span class="(?:n|l)" id=', shown(lab))


@pytest.mark.parametrize(("lines", "tall"), [(60, False), (61, True)])
def test_over_sixty_lines_scroll_in_a_box_that_a_keyboard_reaches(lab, lines, tall):
    artifact = lab.artifact(kernel="pass\n" * lines)
    lab.publish(artifact, timed(batch=31), recorded="2026-12-03T10:15:00Z")
    text = shown(lab)
    assert ('<div class="highlight wl-code wl-tall"><pre tabindex="0">' in text) is tall


def test_code_is_escaped_and_kept_whole(lab):
    source = '// region: a\nauto x = "<b>{{0}}</b>"; /* two\nlines */\n// endregion\n'
    (lab.root / "artifacts/row-sum/stage.cu").write_text(source)
    lab.entry(body=BODY + "\n```source\nfile: stage.cu\nregion: a\n```\n")
    listing = re.search(r"<pre tabindex=\"0\"><code>(.*?)</code></pre>", shown(lab), re.DOTALL)[1]
    assert "&lt;b&gt;{{0}}&lt;/b&gt;" in listing
    assert "<b>" not in listing
    assert listing.count('class="wl-line"') == 2


def test_code_cannot_turn_itself_around(lab):
    """What a reader sees is what a compiler reads."""
    lab.artifact(kernel="access = '\u202eresu'  # \x07\n")
    text = shown(lab)
    assert "\u202e" not in text
    assert "\ufffdresu" in text
    assert "\u2407" in text


COMMIT = "0123456789abcdef"


def test_lines_lead_to_the_repository_at_the_commit_that_was_measured(lab):
    lab.entry(body=BODY + "\n```source\nfile: kernel.py\nregion: kernel\n```\n")
    link = f'<a href="https://git.example/w/blob/{COMMIT}/artifacts/row-sum/kernel.py#L4-L5">'
    assert link + "view in repository</a>" in shown(lab, repository_url="https://git.example/w/")


@pytest.mark.parametrize(
    "source",
    [{"commit": None, "modified": None}, {"commit": "a&b"}, {"modified": True}],
    ids=["no commit", "none that could be one", "the artifact differed from it"],
)
def test_lines_without_a_commit_lead_to_the_published_file(lab, source):
    artifact = lab.artifact()
    plain = record_of(artifact, []).source
    publish_later(lab, timed(batch=31), source=msgspec.structs.replace(plain, **source))
    text = shown(lab, repository_url="https://git.example/w")
    assert '<a href="../artifacts/row-sum/kernel.py">view the file</a>' in text
    assert "/blob/" not in text


def test_lines_that_were_not_measured_lead_to_the_published_file(lab):
    (lab.root / "artifacts/row-sum/kernel.py").write_text("def total(values): ...\n")
    text = shown(lab, repository_url="https://git.example/w")
    assert ">view the file</a>" in text
    assert "/blob/" not in text


def test_text_from_records_and_front_matter_is_shown_as_text(tmp_path):
    lab = Lab(tmp_path / "lab")
    publish_evil(lab)
    evil = json.dumps(EVIL, ensure_ascii=False).replace("\u202e", "\\u202e")
    claim = (
        f"  odd: {{says: {evil}, metric: rows, subject: {evil}, equals: 2, cause: {evil}, "
        f'reported: {{value: {evil}, device: {evil}, by: {evil}, url: "https://{evil[1:]}}}}}\nvalues:'
    )
    plain = "W" * 10_000 + "&'\U0001f600"
    front = FRONT.replace("values:", claim).replace("tags: [pytorch", f'tags: ["{plain}"')
    front = front.replace("One sum is enough", plain).replace("One sentence for the", plain)
    lab.entry(front + "headline: odd\n", BODY + "\n[?](#odd)\n")
    text = shown(lab, repository_url='https://x"><script>')
    tags = Tags(text)
    assert not tags.names & {"img", "script"}
    assert tags.active == []
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    unlinked = re.sub(r'href="[^"]*"', "", text)
    assert max(map(len, re.findall(r"\w+", unlinked))) < 2000


def test_a_token_cannot_be_forged_by_the_text_that_it_stands_in():
    one, two = Tokens("a"), Tokens("b")
    assert one.block("<p>x</p>") != two.block("<p>x</p>")
    forged = one.block("<b>one</b>").strip()
    assert substitute(f"<p>{forged}</p>", two.html) == f"<p>{forged}</p>"


def test_a_block_token_takes_its_paragraph_with_it_and_an_inline_one_does_not():
    tokens = Tokens("text")
    block, word = tokens.block("<table></table>").strip(), tokens.inline("<b>7</b>")
    rendered = f"<p>{block}</p><p>{word}</p>"
    assert substitute(rendered, tokens.html) == "<table></table><p><b>7</b></p>"
