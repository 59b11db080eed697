"""The page of an entry: measured values, verdicts, code and provenance, and nothing that runs."""

import re
from html.parser import HTMLParser

import msgspec
import pytest
from factory import BODY, FRONT, H200, KERNEL, Lab, lab_with_entry, measured, record_of, timed
from hypothesis import given
from hypothesis import strategies as st

from warplog.claim import Verdict
from warplog.entry import load, load_all
from warplog.evidence import Archive
from warplog.fault import Fault
from warplog.journal import Journal, journal_of, outcome_of
from warplog.output import LINE_AT_MOST, plain_output
from warplog.page import refuse_active, write
from warplog.placeholder import Page, Tokens, substitute
from warplog.provenance import duration
from warplog.verdicts import badge
from warplog.ways import home

ENTRY = "2026-12-02-one-sum.md"


@pytest.fixture
def lab(tmp_path):
    return lab_with_entry(tmp_path / "lab")


def page_of(lab):
    archive = Archive(lab.repository)
    entry = load(lab.root / "entries" / ENTRY, lab.repository, archive)
    return write(outcome_of(entry, archive.of(entry.artifact)))


def shown(lab):
    """The page with its tokens replaced, as if Markdown had done nothing."""
    page = page_of(lab)
    return substitute(page.markdown, page.html)


class Tags(HTMLParser):
    """Every element of a text, and every attribute that could run something."""

    def __init__(self, text):
        super().__init__()
        self.names, self.active = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.active += [(name, value) for name, value in attrs if name.startswith("on")]
        self.active += [(name, value) for name, value in attrs if "script:" in (value or "")]


def test_only_the_authors_prose_passes_through_markdown(lab):
    """What is not prose is a token; tables, code and numbers never meet Markdown."""
    page = page_of(lab)
    assert "<" not in page.markdown
    assert "We asked whether" in page.markdown
    assert KERNEL.splitlines()[0] not in page.markdown


def test_a_number_in_prose_says_interval_device_runs_and_record(lab):
    text = shown(lab)
    assert (
        '<a class="wl-value" href="#time"><span title="9.90–10.1 µs over 6 runs on NVIDIA H200; '
        'latency of kernel; record of 2026-12-02T10:15:00Z">10.0 µs</span></a>'
    ) in text


def test_the_page_shows_the_record_and_not_the_text_of_the_link(lab):
    lab.entry(body=BODY.replace("[?]", "[99×]"))
    assert "99×" not in shown(lab)


def test_every_number_leads_to_a_row_of_its_page(lab):
    text = shown(lab)
    for name in re.findall(r'wl-value" href="#([^"]*)"', text):
        assert text.count(f'id="{name}"') == 1


@pytest.mark.parametrize(
    ("bounds", "verdict", "words"),
    [
        ("at_least: 10", "supported", "&ge; 10×"),
        ("at_least: 20", "refuted", "&ge; 20×"),
        ("at_most: 12", "inconclusive", "&le; 12×"),
        ("between: [11, 13]", "supported", "11–13×"),
        ("equals: 0", "refuted", "= 0×"),
    ],
)
def test_a_claim_has_bounds_interval_and_verdict(tmp_path, bounds, verdict, words):
    lab = Lab(tmp_path / "lab")
    peer = [120e-6, 121e-6, 119e-6, 120e-6, 120e-6, 120e-6]
    rows = [
        measured("latency", "kernel", [10e-6] * 6, batch=31),
        measured("latency", "peer", peer, batch=31),
    ]
    lab.publish(lab.artifact(), rows)
    lab.entry(FRONT.replace("at_least: 10", bounds))
    row = re.search(r'<tr id="fast">.*?</tr>', shown(lab))[0]
    assert f">{words}</td>" in row
    assert '<span class="wl-interval">11.9–12.1×</span>' in row
    assert badge(Verdict(verdict)) in row


@pytest.mark.parametrize(
    ("peer", "note"), [(99.98e-6, True), (90e-6, False), (100e-6, False), (120e-6, False)]
)
def test_a_refutation_that_rounding_hides_says_so(tmp_path, peer, note):
    """9.998 times is written 10.0, and at least ten was claimed."""
    lab = Lab(tmp_path / "lab")
    rows = [
        measured("latency", "kernel", [10e-6] * 6, batch=31),
        measured("latency", "peer", [peer] * 6, batch=31),
    ]
    lab.publish(lab.artifact(), rows)
    lab.entry()
    assert ("outside by less than three digits show" in shown(lab)) is note


def test_a_measurement_of_one_run_says_so_wherever_it_shows(tmp_path):
    """Nsight Compute counts in one process of its own, beside the six."""
    lab = Lab(tmp_path / "lab")
    counter = measured("dram__bytes_read.sum", "kernel", [2.5e8], unit="B", batch=31)
    lab.publish(lab.artifact(), [*timed(batch=31), counter])
    claim = (
        "  reads: {says: It reads little., metric: dram__bytes_read.sum, subject: kernel, "
        "at_most: 3.0e8}\n"
        "  exact: {says: It is right., metric: mismatches, subject: kernel, equals: 0}\nvalues:\n"
        "  bytes: {metric: dram__bytes_read.sum, subject: kernel}"
    )
    lab.entry(FRONT.replace("values:", claim), "\n[?](#reads), [?](#bytes), [?](#exact)\n")
    text = shown(lab)
    reads = re.search(r'<tr id="reads">.*?</tr>', text)[0]
    assert '<div class="wl-about">one run</div>' in reads
    assert '<div class="wl-about">one run</div>' in re.search(r'<tr id="bytes">.*?</tr>', text)[0]
    assert "one run" not in re.search(r'<tr id="exact">.*?</tr>', text)[0]
    assert "one run" not in re.search(r'<tr id="time">.*?</tr>', text)[0]
    assert text.count('title="250 MB over one run on NVIDIA H200') == 2
    assert 'title="0 rows over 6 runs on' in text


@pytest.mark.parametrize(
    ("metric", "value", "words"),
    [
        ("bandwidth", "4.8e12", "4.80 TB/s"),
        ("roofline_fraction", "0.9", "90 %"),
        ("host_time", "2.5e-6", "2.50 µs"),
        ("error", "0.25", "25 %"),
    ],
)
def test_what_was_reported_has_its_unit_where_nothing_was_measured(tmp_path, metric, value, words):
    lab = Lab(tmp_path / "lab")
    lab.artifact()
    claim = f"metric: {metric}\n    subject: kernel\n    at_least: {value}\n"
    claim += f"    reported: {{value: {value}, device: b200, by: me}}\n"
    head, _, tail = FRONT.partition("metric: speedup")
    lab.entry(head + claim + tail[tail.index("values:") :])
    row = re.search(r'<tr id="fast">.*?</tr>', shown(lab))[0]
    assert f">{words}<div" in row
    assert f"&ge; {words}" in row


def test_a_metric_of_a_stale_record_still_lends_its_unit(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.publish(lab.artifact(), timed(batch=31))
    claim = "  few: {says: Few., metric: mismatches, subject: kernel, at_most: 3}\nvalues:"
    lab.entry(FRONT.replace("values:", claim))
    (lab.root / "artifacts/row-sum/kernel.py").write_text("pass\n")
    assert "&le; 3 rows" in re.search(r'<tr id="few">.*?</tr>', shown(lab))[0]


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


def test_a_badge_is_icon_word_and_tint():
    for verdict in Verdict:
        text = badge(verdict)
        assert f"wl-{verdict}" in text
        assert f"</span> {verdict}</span>" in text
        assert 'aria-hidden="true">' in text


def test_what_was_reported_stands_beside_with_its_source(lab):
    reported = "{value: 32.9, device: nvidia-b200, by: the post, url: 'https://example.org/a?b&c'}"
    lab.entry(FRONT.replace("at_least: 10", f"at_least: 10\n    reported: {reported}"))
    row = re.search(r'<tr id="fast">.*?</tr>', shown(lab))[0]
    assert ">32.9×<div" in row
    assert 'nvidia-b200, <a href="https://example.org/a?b&amp;c" rel="noopener">the post</a>' in row


def test_a_value_that_was_not_measured_says_why(lab):
    front = FRONT.replace("{metric: latency", "{metric: roofline_fraction")
    lab.entry(front)
    text = shown(lab)
    reason = "no record of the artifact ceilings for this device"
    assert f'<span title="{reason}">not measured</span>' in text
    assert f'not measured<div class="wl-about">{reason}</div>' in text


def test_an_artifact_without_a_kernel_file_has_no_listing(lab):
    (lab.root / "artifacts/row-sum/kernel.py").unlink()
    assert "## Code" not in shown(lab)


def test_a_range_that_was_reported_in_words_stays_words(lab):
    reported = "{value: 4 to 33 times, device: nvidia-b200, by: the post}"
    lab.entry(FRONT.replace("at_least: 10", f"at_least: 10\n    reported: {reported}"))
    assert ">4 to 33 times<div" in shown(lab)


def test_each_device_has_its_own_verdict_and_the_entrys_own_stands_first(lab):
    slow = [
        measured("latency", "kernel", [1e-4] * 6, batch=31),
        measured("latency", "peer", [1e-4] * 6, batch=31),
    ]
    environment = record_of(lab.artifact(), []).environment
    gpu = {**H200, "name": "AMD Something"}
    lab.publish(
        lab.artifact(),
        slow,
        device="amd-something",
        environment=msgspec.structs.replace(environment, gpu=gpu),
    )
    text = shown(lab)
    assert text.index('<th scope="col">NVIDIA H200') < text.index('<th scope="col">AMD Some')
    row = re.search(r'<tr id="fast">.*?</tr>', text)[0]
    assert row.index("wl-supported") < row.index("wl-refuted")


def test_a_speedup_inside_the_noise_says_so(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.publish(lab.artifact(), timed(batch=31))
    kernel_over_peer = "subject: kernel\n    over: peer"
    peer_over_peer = "subject: peer\n    over: peer"
    front = FRONT.replace(kernel_over_peer, peer_over_peer).replace("at_least: 10", "at_least: 0")
    lab.entry(front)
    assert "within the A/A noise" in shown(lab)
    lab.entry()
    assert "within the A/A noise" not in shown(lab)


def test_a_claim_about_several_workloads_says_how_many(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.publish(lab.artifact(), [*timed(batch=1), *timed(batch=2)])
    lab.entry(FRONT.replace("    workload: batch=31\n", "").replace(", workload: batch=31", ""))
    assert "over 2 workloads" in shown(lab)


def test_a_stale_page_shows_no_number_as_current(lab):
    (lab.root / "artifacts/row-sum/kernel.py").write_text("def total(values): ...\n")
    text = shown(lab)
    assert "Stale: kernel.py changed since" in text
    assert badge(Verdict.UNTESTED) in text
    assert "12×" not in text.replace("&ge; 10×", "")
    assert text.count("not measured") >= 2


def test_a_page_without_a_record_says_so(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.artifact()
    figure = "kind: lines\nmetric: latency\naxis: batch\nsubjects: [kernel]\ntitle: Flat\n"
    lab.entry(body=f"{BODY}\n```figure\n{figure}```\n")
    text = shown(lab)
    assert "Nothing was measured on nvidia-h200 yet" in text
    assert "Figure 1, Flat, waits for a record" in text
    assert "## Provenance" not in text
    assert "nox -s reproduce -- one-sum" in text


def test_a_disturbed_record_says_so(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.publish(lab.artifact(), timed(batch=31), disturbed=["thermal slowdown"])
    lab.entry()
    text = shown(lab)
    assert "Disturbed: thermal slowdown." in text
    assert '<div class="wl-about">disturbed</div>' in text


def test_a_failed_subject_is_shown_with_its_output_made_safe(tmp_path):
    lab = Lab(tmp_path / "lab")
    reason = "```\n<script>alert(1)</script>\n\x1b[31mred\x1b[0m\n" + "x" * 70_000
    failed = measured("latency", "wild", None, failed=reason, batch=31)
    lab.publish(lab.artifact(), [*timed(batch=31), failed])
    claim = "  wild: {says: It is fast., metric: latency, subject: wild, at_most: 1}\nvalues:"
    lab.entry(FRONT.replace("values:", claim))
    text = shown(lab)
    assert "```\n&lt;script&gt;alert(1)&lt;/script&gt;\nred\n" in text
    assert "68000 characters left out" in text
    assert "script" not in Tags(text).names
    assert "\x1b" not in text


def test_all_of_the_kernel_is_shown_where_the_entry_shows_no_source(lab):
    text = shown(lab)
    assert "## Code" in text
    assert text.count('class="wl-line"') == len(KERNEL.splitlines())


def test_a_region_is_shown_with_its_own_line_numbers(lab):
    lab.entry(body=BODY + "\n```source\nfile: kernel.py\nregion: kernel\n```\n")
    text = shown(lab)
    assert "## Code" not in text
    assert re.findall(r'data-line="(\d+)"', text) == ["4", "5"]
    assert "region kernel &middot; lines 4&ndash;5" in text


def test_code_is_escaped_and_kept_whole(lab):
    source = '// region: a\nauto x = "<b>{{0}}</b>"; /* two\nlines */\n// endregion\n'
    (lab.root / "artifacts/row-sum/stage.cu").write_text(source)
    lab.entry(body=BODY + "\n```source\nfile: stage.cu\nregion: a\n```\n")
    listing = re.search(r"<pre><code>(.*?)</code></pre>", shown(lab), re.DOTALL)[1]
    assert "&lt;b&gt;{{0}}&lt;/b&gt;" in listing
    assert "<b>" not in listing
    assert listing.count('class="wl-line"') == 2


def test_text_from_records_and_front_matter_is_escaped(tmp_path):
    evil = '"><img src=x onerror=alert(1)>'
    lab = Lab(tmp_path / "lab")
    artifact = lab.artifact()
    plain = record_of(artifact, [])
    environment = msgspec.structs.replace(
        plain.environment,
        gpu={"name": evil, "compute_capability": evil, "multiprocessors": evil},
        driver=evil,
        python=evil,
        system=evil,
        packages={evil: evil},
        variables={evil: evil},
        clocks=[{"sm_mhz": evil, "slowed": [evil]}],
    )
    protocol = msgspec.structs.replace(plain.protocol, timer=evil)
    source = msgspec.structs.replace(plain.source, commit=evil)
    rows = [
        *timed(batch=31),
        measured("latency", evil, [1e-5] * 6, mode=evil),
        measured("rows", evil, [1] * 6, unit=evil, batch=31),
        measured("latency", evil, None, failed=evil, batch=31),
    ]
    lab.publish(
        artifact,
        rows,
        environment=environment,
        protocol=protocol,
        source=source,
        disturbed=[evil],
    )
    quoted = evil.replace('"', '\\"')
    extra = (
        f'  odd: {{says: "{quoted}", metric: rows, subject: "{quoted}", equals: 1, '
        f'reported: {{value: "{quoted}", device: "{quoted}", by: "{quoted}", '
        f'url: "https://{quoted}"}}}}\nvalues:'
    )
    lab.entry(FRONT.replace("values:", extra), BODY + "\n[?](#odd)\n")
    tags = Tags(shown(lab))
    assert "img" not in tags.names
    assert tags.active == []


def test_provenance_says_where_and_how(lab):
    text = shown(lab)
    for words in (
        "NVIDIA H200, compute capability 9.0, 132 multiprocessors",
        "580.95",
        "torch 2.11.0, triton 3.6.0",
        "0123456789ab",
        "6 fresh processes",
        "filled queue",
        "cold (128 MiB read before each cold call)",
        "SM 1905–1980 MHz",
        "nothing seen",
    ):
        assert f">{words}" in text, words
    link = "../artifacts/row-sum/records/nvidia-h200/2026-12-02T101500Z.json"
    assert re.search(rf'<a href="{re.escape(link)}">[^<]*</a> \(\d+ KiB\)', text)


def test_a_record_without_a_gpu_or_a_commit_stands_for_nothing(tmp_path):
    lab = Lab(tmp_path / "lab")
    artifact = lab.artifact()
    plain = record_of(artifact, [])
    environment = msgspec.structs.replace(plain.environment, gpu=None, driver=None, clocks=[])
    source = msgspec.structs.replace(plain.source, commit=None, modified=None)
    rows = [measured("error", "kernel", [0.0] * 6, unit="fraction", batch=2)]
    lab.publish(artifact, rows, device="cpu", environment=environment, source=source)
    lab.entry(FRONT.replace("claims:\n", "claims: {}\n").partition("  fast")[0], "\nNone.\n")
    text = shown(lab)
    assert "none: correctness only" in text
    assert "nothing was timed" in text
    assert text.count(">not stated</td>") == 3


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "a second"), (83.1, "83 seconds"), (600, "10 minutes")]
)
def test_a_reproduction_takes_as_long_as_a_person_would_say(seconds, words):
    assert duration(seconds) == words


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


def test_the_home_page_lists_entries_newest_first(lab):
    lab.entry(
        FRONT.replace("2026-12-02", "2026-12-09").replace("One sum is", "Two & more"),
        name="2026-12-09-two.md",
    )
    archive = Archive(lab.repository)
    entries, _ = load_all(lab.repository, archive)
    page = home("# Hi\n\n<!-- warplog: entries -->\n\nBye\n", journal_of(entries, archive))
    text = substitute(page.markdown, page.html)
    assert text.index("Two &amp; more") < text.index("One sum is")
    assert 'href="entries/two.html"' in text
    assert badge(Verdict.SUPPORTED, 1) in text
    assert "stale record" not in text
    (lab.root / "artifacts/row-sum/kernel.py").write_text("pass\n")
    page = home("<!-- warplog: entries -->", journal_of(entries, Archive(lab.repository)))
    assert "stale record" in substitute(page.markdown, page.html)


def test_a_home_page_without_entries_says_so():
    page = home("<!-- warplog: entries -->", Journal(()))
    assert "No entry yet" in substitute(page.markdown, page.html)


@pytest.mark.parametrize(
    ("output", "shown_as"),
    [
        ("a```b", "a```b"),
        ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b(B", "red x"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]never closed\nnext", "\nnext"),
        ("10%\r20%\r100%", "100%"),
        ("downloading\rdone", "doneloading"),
        ("one\r\ntwo\r\n", "one\ntwo"),
        ("abc\b\bX", "aX"),
        ("\b\bX", "X"),
        ("nul\x00 bell\x07 del\x7f", "nul\u2400 bell\u2407 del\u2421"),
        ("é 漢 \udce9", "é 漢 \ufffd"),
        ("\u202egnp.exe", "\ufffdgnp.exe"),
        ("<b> & 'x'", "&lt;b&gt; &amp; &#x27;x&#x27;"),
        ("no newline at the end", "no newline at the end"),
        ("\n\n", ""),
    ],
)
def test_program_output_is_shown_as_a_terminal_would(output, shown_as):
    assert plain_output(output) == shown_as


def test_a_line_that_is_too_long_says_what_is_left_out():
    line = "a" * 40_000 + "b" * 30_000
    text = plain_output(f"before\n{line}\nafter")
    assert text.startswith("before\naaa")
    assert text.endswith("bbb\nafter")
    assert f"[... {70_000 - LINE_AT_MOST} characters left out ...]" in text


@given(st.text())
def test_no_output_is_obeyed(output):
    text = plain_output(output)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f<>\u202a-\u202e]", text)
    text.encode("utf-8")
