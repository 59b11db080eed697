"""The site is built from entries and records, strictly, and asks nothing of anyone else."""

import json
import re
import shutil
from datetime import date
from pathlib import Path

import pytest
import yaml
from factory import BODY, FRONT, lab_with_entry
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort
from mkdocs.plugins import PluginCollection
from mkdocs.structure.files import Files, InclusionLevel
from mkdocs.utils.yaml import yaml_load

from warplog.plugin import WarplogPlugin
from warplog.scaffold import Beginning, begin

ROOT = Path(__file__).parents[1]

FIGURE = "kind: lines\nmetric: latency\naxis: batch\nsubjects: [kernel]\ntitle: x\n"


@pytest.fixture
def lab(tmp_path):
    """A repository with the real settings and pages of the site, and one entry."""
    lab = lab_with_entry(tmp_path / "lab")
    shutil.copytree(ROOT / "site_src", lab.root / "site_src")
    settings = yaml_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings["theme"] = {"name": "mkdocs"}
    settings["plugins"] = []
    (lab.root / "mkdocs.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return lab


def configured(lab):
    """The site's settings with our plugin, which works without being installed."""
    config = load_config(str(lab.root / "mkdocs.yml"))
    config.plugins = PluginCollection()
    config.plugins["warplog"] = WarplogPlugin()
    return config


def serving(lab):
    """The same, with an author who watches."""
    config = configured(lab)
    config.plugins["warplog"].on_startup(command="serve", dirty=False)
    return config


def built(lab):
    config = configured(lab)
    build(config)
    return Path(config.site_dir)


def built_loosely(lab):
    config = configured(lab)
    config.strict = False
    build(config)
    return Path(config.site_dir)


def test_an_entry_becomes_a_page_under_its_slug(lab):
    text = (built(lab) / "entries/one-sum.html").read_text(encoding="utf-8")
    assert "<h1>One sum is enough</h1>" in text
    assert 'href="#fast"' in text
    assert 'id="claims"' in text
    assert not re.search(r"wl[0-9a-f]{16}[bi]\d+e", text)


def test_the_home_page_leads_to_the_entry(lab):
    text = (built(lab) / "index.html").read_text(encoding="utf-8")
    assert 'href="entries/one-sum.html"' in text
    assert "1 supported" in text


def test_a_path_of_the_repository_is_a_path_of_the_site(lab):
    site = built(lab)
    record = "artifacts/row-sum/records/nvidia-h200/2026-12-02T101500Z.json"
    for path in (record, "artifacts/row-sum/kernel.py"):
        assert (site / path).read_bytes() == (lab.root / path).read_bytes()
    text = (site / "entries/one-sum.html").read_text(encoding="utf-8")
    assert f'href="../{record}"' in text


def test_what_artifacts_share_is_published_where_a_source_block_leads(lab):
    shared = lab.root / "artifacts/shared/rows.py"
    shared.parent.mkdir(exist_ok=True)
    shared.write_text("ROWS = 4\n", encoding="utf-8")
    lab.entry(body=BODY + "\n```source\nfile: ../shared/rows.py\n```\n")
    site = built(lab)
    text = (site / "entries/one-sum.html").read_text(encoding="utf-8")
    assert 'href="../artifacts/shared/rows.py"' in text
    assert (site / "artifacts/shared/rows.py").is_file()


def test_the_schema_of_records_is_published(lab):
    schema = json.loads((built(lab) / "record.schema.json").read_text(encoding="utf-8"))
    assert "Measurement" in schema["$defs"]


def test_links_between_entries_are_those_of_the_repository(lab):
    lab.entry(
        FRONT.replace("2026-12-02", "2026-12-09"),
        BODY + "\nSee [the first](2026-12-02-one-sum.md#claims) and "
        "[the code](../artifacts/row-sum/kernel.py).\n",
        "2026-12-09-two.md",
    )
    text = (built(lab) / "entries/two.html").read_text(encoding="utf-8")
    assert 'href="one-sum.html#claims"' in text
    assert 'href="../artifacts/row-sum/kernel.py"' in text


def test_a_draft_is_not_published(lab):
    lab.entry(FRONT + "draft: true\n")
    site = built(lab)
    assert not (site / "entries").exists()
    assert "No entry yet" in (site / "index.html").read_text(encoding="utf-8")
    assert not (site / "artifacts/row-sum").exists()


def test_an_artifact_that_a_published_entry_tells_of_is_published(lab):
    front = FRONT.replace("2026-12-02", "2026-12-09") + "draft: true\n"
    lab.entry(front, name="2026-12-09-two.md")
    site = built(lab)
    assert (site / "artifacts/row-sum/kernel.py").is_file()
    assert not (site / "entries/two.html").exists()


def test_an_author_sees_a_draft_and_that_it_is_one(lab):
    lab.entry(FRONT + "draft: true\n")
    config = serving(lab)
    build(config)
    text = (Path(config.site_dir) / "entries/one-sum.html").read_text(encoding="utf-8")
    assert "<strong>Draft.</strong>" in text
    assert (Path(config.site_dir) / "artifacts/row-sum/kernel.py").is_file()
    assert "entries/one-sum.html" in (Path(config.site_dir) / "index.html").read_text("utf-8")


def test_a_new_entry_passes_the_strict_build_untouched(lab):
    wanted = Beginning("A norm", "norm", "nvidia-h200", ("triton",))
    path, *_ = begin(lab.repository, wanted, date(2026, 12, 2))
    assert not (built(lab) / "entries/norm.html").exists()
    config = serving(lab)
    build(config)
    assert "To write:" in (Path(config.site_dir) / "entries/norm.html").read_text("utf-8")
    path.write_text(path.read_text("utf-8").replace("draft: true\n", ""), encoding="utf-8")
    assert "To write:" in (built(lab) / "entries/norm.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("front", "body", "words"),
    [
        (
            FRONT.replace("metric: latency", "metric: latncy"),
            BODY,
            "entries/2026-12-02-one-sum.md:17",
        ),
        (FRONT, "\n[?](#fats)\n", "entries/2026-12-02-one-sum.md:20: no claim, value or heading"),
        (
            FRONT,
            f"\n```figure\n{FIGURE}```\n",
            "entries/2026-12-02-one-sum.md:20: figure: 'kernel' has one point",
        ),
    ],
)
def test_a_fault_ends_the_build_in_one_line_without_a_traceback(lab, caplog, front, body, words):
    lab.entry(front, body)
    with pytest.raises(Abort):
        built(lab)
    assert words in caplog.text
    assert "Traceback" not in caplog.text


def test_what_only_markdown_makes_active_ends_the_build(lab, caplog, monkeypatch):
    """The check of the source is a net with holes; the check of the rendered page has none."""
    monkeypatch.setattr("warplog.hypertext.findings_in_source", lambda *_: [])
    for body in ("[x](java&#115;cript:y)", 'Words.\n{: onmouseover="x" }', "`\n<script>\n` a `"):
        caplog.clear()
        lab.entry(body=f"\n{body}\n")
        with pytest.raises(Abort):
            built(lab)
        assert "entries/2026-12-02-one-sum.md: active HTML on the page" in caplog.text
        assert "Traceback" not in caplog.text


def test_a_number_that_markdown_takes_for_code_ends_the_build_at_its_line(lab, caplog, monkeypatch):
    monkeypatch.setattr("warplog.body.standing_problems", lambda *_: [])
    lab.entry(body="\nWords:\n\n    [?](#time)\n")
    with pytest.raises(Abort):
        built(lab)
    assert "entries/2026-12-02-one-sum.md:22: a measured number in code" in caplog.text


def test_markdown_of_every_kind_is_harmless(lab):
    """Nothing that our extensions write is refused."""
    lab.entry(
        body="\n## Head\n\n!!! note\n\n    It took [?](#time).\n\n"
        "| a | b |\n|--:|:-:|\n| [?](#time) | 2 |\n\n"
        "A note[^1] to <me@example.org>, <https://example.org>, **[?](#fast)** ![x](x.png)\n"
        "{: .wide }\n\n```python\nx = '<script>'\n```\n\n> 1. quote\n\n---\n\n[^1]: Note: [?](#time).\n"
    )
    (lab.root / "site_src/x.png").write_bytes(b"")
    text = (built_loosely(lab) / "entries/one-sum.html").read_text(encoding="utf-8")
    assert text.count('class="wl-value" href="#time"') == 3


def test_a_record_that_cannot_be_read_ends_the_build(lab, caplog):
    path = lab.root / "artifacts/row-sum/records/nvidia-h200/2026-12-02T101500Z.json"
    path.write_text(path.read_text(encoding="utf-8")[:99], encoding="utf-8")
    with pytest.raises(Abort):
        built(lab)
    assert "2026-12-02T101500Z.json:" in caplog.text


def test_a_folder_that_is_no_repository_ends_the_build(lab, caplog):
    shutil.rmtree(lab.root / "entries")
    with pytest.raises(Abort):
        built(lab)
    assert "entries/ and artifacts/" in caplog.text


def test_an_entry_is_watched_by_its_own_file_and_stays_out_of_the_navigation(lab):
    config = configured(lab)
    config.plugins._current_plugin = "warplog"
    config.plugins["warplog"].on_files(files := Files([]), config=config)
    file = files.get_file_from_path("entries/2026-12-02-one-sum.md")
    assert file.abs_src_path == str(lab.root / "entries/2026-12-02-one-sum.md")
    assert file.inclusion is InclusionLevel.NOT_IN_NAV
    assert file.dest_uri == "entries/one-sum.html"


def test_a_rebuild_shows_an_edit_and_a_new_record(lab):
    config = configured(lab)
    build(config)
    page = Path(config.site_dir) / "entries/one-sum.html"
    (lab.root / "artifacts/row-sum/kernel.py").write_text("pass\n", encoding="utf-8")
    lab.entry(body="\nAn edit.\n")
    build(config)
    text = page.read_text(encoding="utf-8")
    assert "An edit." in text
    assert "<strong>Stale.</strong> kernel.py changed since" in text


def test_quotes_and_ampersands_of_front_matter_are_shown_as_written(lab):
    lab.entry(FRONT.replace("One sentence", """Say "A" & 'c'"""), BODY)
    text = (built(lab) / "entries/one-sum.html").read_text(encoding="utf-8")
    assert "&quot;A&quot; &amp; &#x27;c&#x27; for the index." in text
    for attribute in re.findall(r'content="([^"]*)"', text):
        assert '"' not in attribute


def test_the_real_site_asks_nothing_of_other_hosts(lab):
    """With the theme that is published: no script, style, font or picture from elsewhere."""
    pytest.importorskip("material")
    settings = yaml_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings["plugins"] = ["search"]
    (lab.root / "mkdocs.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    config = load_config(str(lab.root / "mkdocs.yml"))
    config.plugins["warplog"] = WarplogPlugin()
    build(config)
    for path in Path(config.site_dir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"<(?:script|link|img|iframe|source)[^>]*https?://[^>]*>", text)
        assert [tag for tag in found if 'rel="canonical"' not in tag] == [], path
        assert "<script" not in re.sub(r"(?s).*<article[^>]*>|</article>.*", "", text)


def test_while_serving_a_fault_is_a_page_with_its_line_and_not_the_end(lab):
    config = serving(lab)
    lab.entry(FRONT.replace("metric: latency", "metric: latncy"))
    build(config)
    text = (Path(config.site_dir) / "entries/one-sum.html").read_text(encoding="utf-8")
    assert "entries/2026-12-02-one-sum.md:17" in text
    assert "latncy" in text
    lab.entry(
        body="\n```figure\nkind: lines\nmetric: latency\naxis: batch\nsubjects: [kernel]\ntitle: x\n```\n"
    )
    build(config)
    text = (Path(config.site_dir) / "entries/one-sum.html").read_text(encoding="utf-8")
    assert "has one point" in text
    lab.entry()
    build(config)
    assert "One sum is enough" in (Path(config.site_dir) / "entries/one-sum.html").read_text(
        encoding="utf-8"
    )


def test_a_fault_page_obeys_nothing_that_it_shows(lab):
    config = serving(lab)
    lab.entry(FRONT.replace("title: One sum is enough", "title: <script>alert(1)</script>"))
    build(config)
    text = (Path(config.site_dir) / "entries/one-sum.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text
