"""An entry is read whole, or everything that is wrong with it is said at its line with a remedy."""

import contextlib
import time

import pytest
from factory import BODY, FRONT, KERNEL, Lab, lab_with_entry, measured, timed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warplog.entry import fill, load, load_all
from warplog.fault import Faults

QUICK = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def lab(tmp_path):
    return lab_with_entry(tmp_path / "lab")


def faults_of(lab, front=FRONT, body=BODY, **options):
    """What is wrong with an entry, as an author sees it."""
    path = lab.entry(front, body, **options)
    with pytest.raises(Faults) as caught:
        load(path, lab.repository)
    return [str(fault) for fault in caught.value.faults]


def only(faults):
    assert len(faults) == 1, faults
    return faults[0]


def test_an_entry_that_is_right_is_read(lab):
    path = lab.entry()
    entry = load(path, lab.repository)
    assert (entry.slug, entry.artifact, entry.date.isoformat()) == (
        "one-sum",
        "row-sum",
        "2026-12-02",
    )
    assert entry.claims["fast"].workload == {"batch": 31}
    assert [link.id for link in entry.body.links] == ["fast", "time"]


@pytest.mark.parametrize(
    ("before", "after", "line", "problem", "remedy"),
    [
        ("title: One", "titel: One", "titel", "no key 'titel' is known here", "use title"),
        (
            "summary: One sentence for the index.\n",
            "",
            "title",
            "'summary' is missing",
            "add `summ",
        ),
        (
            "tags: [pytorch, sums]",
            "tags: sums",
            "tags",
            "tags: is text, not a list",
            "write a list",
        ),
        ("artifact: row-sum", "artifact: row-sun", "artifact", "'row-sun'", "use row-sum"),
        ("artifact: row-sum", "artifact: ../../etc", "artifact", "no artifact can", "use one of"),
        ("date: 2026-12-02", "date: 2026-13-45", "date", "'2026-13-45' is no date", "YYYY-MM-DD"),
        ("date: 2026-12-02", "date: 2026-12-03", "date", "not that of the file", "2026-12-02"),
        ("date: 2026-12-02", "date: soon", "date", "'soon' is no date", "YYYY-MM-DD"),
        (
            "device: nvidia-h200",
            "device: H200!",
            "device",
            "'H200!' is the name of no device",
            "nvidia-h200",
        ),
        ("metric: speedup", "metric: speed", "over: peer", "speed is not over", "speedup"),
        ("metric: latency", "metric: latencies", "time: ", "no metric 'latencies'", "use latency"),
        ("over: peer", "over: pear", "over", "no subject 'pear'", "use peer"),
        ("    over: peer\n", "", "metric: sp", "speedup over what?", "add `over:`"),
        ("subject: kernel\n", "subject: kernal\n", "subject", "no subject 'kernal'", "use kernel"),
        ("batch=31\n", "btach=31\n", "workload: bt", "no size 'btach'", "use batch"),
        ("batch=31\n", "batch=32\n", "workload: batch=32", "no workload", "use batch=31"),
        ("batch=31\n", "31\n", "workload: 31", "is not text", "batch=31 length=4096"),
        ("batch=31\n", "batch\n", "workload: batch", "not name=value", "batch=31 length=4096"),
        ("at_least: 10", "at_leest: 10", "at_leest", "no key 'at_leest'", "use at_least"),
        (
            "at_least: 10",
            "at_least: fast",
            "at_least",
            "at_least: is text, not a number",
            "a plain number",
        ),
        ("at_least: 10", "at_least: .inf", "at_least", "not finite", "a plain number"),
        ("at_least: 10", "at_least: .nan", "at_least", "not finite", "a plain number"),
        ("at_least: 10", "between: [2, 1]", "between", "low end is above", "swap"),
        (
            "at_least: 10",
            "between: 3",
            "between",
            "is a number, not a list",
            "between: [low, high]",
        ),
        ("at_least: 10", "at_least: 2x", "at_least", "is text, not a number", "a plain number"),
        (
            "at_least: 10",
            "at_least: 10\n    reported: 3",
            "reported",
            "is a number, not keys with values",
            "{value: 3, device: nvidia-b200, by: who}",
        ),
        ("at_least: 10", "between: [1, .inf]", "between", "not finite", "a plain number"),
        ("    at_least: 10\n", "", "fast:", "has no bound", "exactly one"),
        (
            "at_least: 10",
            "at_least: 1\n    at_most: 2",
            "at_most",
            "at_least and at_most",
            "betwee",
        ),
        ("time: {", "fast: {", "  fast: {", "also a claim", "rename"),
        ("  fast:", "  Fast One:", "Fast One", "no anchor", "hyphens"),
        ("  fast:", "  claims:", "  claims:", "a section of the page", "another id"),
        ("title: One sum", "title: One <b>sum", "title", "no plain text", "without <"),
        ("title: One sum is enough", 'title: "One\\esum"', "title", "no plain text", "without <"),
        ("title: One sum is enough", 'title: ""', "title", "is empty", "write it"),
        ("tags: [pytorch, sums]", "tags: [a<b]", "tags", "no plain text", "without <"),
        ("title: One", "title: One\ntitle: Two", "title: Two", "also on line 2", "keep one"),
        ("title: One", "title: [One", "date", "is not YAML", "key: value"),
        ("title: One sum", "title: !!binary One", "title", "binary", "plain values"),
        (
            "at_least: 10",
            "at_least: 10\n    reported: {value: 3, device: b200}",
            "reported",
            "'by' is missing",
            "add `by",
        ),
        (
            "at_least: 10",
            "at_least: 10\n    reported: {value: 3, device: b, by: me, url: 'javascript:x'}",
            "reported",
            "is no address",
            "https://",
        ),
    ],
)
def test_front_matter_that_is_wrong(lab, before, after, line, problem, remedy):
    """Each fault says file, line, value and remedy."""
    assert before in FRONT
    front = FRONT.replace(before, after, 1)
    faults = faults_of(lab, front)
    path = lab.root / "entries" / "2026-12-02-one-sum.md"
    wanted = [fault for fault in faults if problem in fault]
    assert wanted, faults
    assert wanted[0].startswith(lab.line(path, line) + ": "), wanted
    assert remedy in wanted[0]


def test_the_message_is_the_one_that_the_design_promises(lab):
    front = FRONT.replace("metric: speedup", "metric: speed").replace("    over: peer\n", "")
    fault = only(faults_of(lab, front))
    assert fault.startswith(
        "entries/2026-12-02-one-sum.md:11: claim 'fast': no metric 'speed'; use"
    )
    assert "speedup" in fault


def test_all_that_is_wrong_is_said_at_once(lab):
    front = FRONT.replace("subject: kernel\n", "subject: ghost\n").replace("2026-12-02", "never")
    assert len(faults_of(lab, front, BODY + "\n[x](#nowhere)\n")) == 3


def test_names_wait_for_the_first_fresh_record(lab):
    """An author renames a subject: until the next reproduction there is nothing to check it with."""
    front = FRONT.replace("subject: kernel", "subject: renamed")
    assert faults_of(lab, front)
    (lab.root / "artifacts" / "row-sum" / "kernel.py").write_text("def renamed(): ...\n")
    assert load(lab.entry(front), lab.repository).claims["fast"].subject == "renamed"


def test_a_subject_that_failed_is_no_wrong_name(tmp_path):
    lab = Lab(tmp_path / "lab")
    failed = measured("latency", "kernel", None, failed="wrong", batch=31)
    lab.publish(lab.artifact(), [*timed(batch=1), failed])
    assert load(lab.entry(), lab.repository)


def test_scientific_notation_without_a_point_is_a_number(lab):
    front = FRONT.replace("at_least: 10", "at_least: 1e-5")
    assert load(lab.entry(front), lab.repository).claims["fast"].at_least == 1e-5


@pytest.mark.parametrize("text", ["1:30", "0x1f", "1_000", "yes", "!!int 1:30", "1" + "0" * 400])
def test_what_yaml_1_1_would_turn_into_another_number_is_refused(lab, text):
    assert faults_of(lab, FRONT.replace("at_least: 10", f"at_least: {text}"))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("010", 10),
        ("4.1e12", 4.1e12),
        ("6.5e14", 6.5e14),
        ("2.0e-6", 2e-6),
        ("+.5", 0.5),
        ("8.", 8),
    ],
)
def test_a_number_is_read_as_it_is_written(lab, text, number):
    front = FRONT.replace("at_least: 10", f"at_least: {text}")
    assert load(lab.entry(front), lab.repository).claims["fast"].at_least == number


def test_words_that_yaml_1_1_takes_for_truth_are_words(lab):
    front = FRONT.replace("[pytorch, sums]", "[no, on]")
    assert load(lab.entry(front), lab.repository).tags == ("no", "on")


def test_a_reported_number_that_no_float_holds_is_refused(lab):
    reported = f"{{value: 1{'0' * 400}, device: x, by: me}}"
    front = FRONT.replace("at_least: 10", f"at_least: 10\n    reported: {reported}")
    assert "value: is not finite" in only(faults_of(lab, front))


def test_a_workload_of_words_can_be_named(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.publish(lab.artifact(), timed(kind="two words", bits="16"))
    front = FRONT.replace("batch=31\n", 'kind="two words" bits=16\n').replace(
        ", workload: batch=31", ""
    )
    assert load(lab.entry(front), lab.repository)
    wrong = only(faults_of(lab, front.replace("bits=16", "bits=8")))
    assert 'use kind="two words" bits=16' in wrong


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("[x](javascript&#58;alert)", "[x]"),
        ("[x](java&#115;cript:alert)", "[x]"),
        ("[x](java&Tab;script:alert)", "[x]"),
        ("[x][y]\n\n[y]: data:text/plain,x", "[y]:"),
        ('Words.\n{: onmouseover="x" }', "{:"),
        ("## Words { onclick=x }", "##"),
        ('``` { .python onclick="x" }\nx\n```', "```"),
        ("a `\n<script>alert(1)</script>\n` b", "<script>"),
        ("<a\nhref='x'\nonclick='y'>", "<a"),
        ("<svg/onload=x>", "<svg"),
        ("<!--> <img src=x onerror=y> -->", "<!-->"),
        ("<!-- --!> <img src=x onerror=y> -->", "<!--"),
        ("<![CDATA[> <img src=x onerror=y> ]]>", "<![CDATA"),
        ("<textarea>", "<textarea>"),
        ("<form action=x>", "<form"),
        ("<img src=x onerror=y", "<img"),
    ],
)
def test_what_would_run_in_a_browser_is_refused(lab, body, line):
    faults = faults_of(lab, body=f"\n{body}\n")
    place = lab.line(lab.root / "entries/2026-12-02-one-sum.md", line)
    assert faults[0].startswith(f"{place}: active HTML"), faults


def test_what_is_harmless_is_left_alone(lab):
    body = (
        "\nIf a < b & c > d, see <https://example.org/a:b> or [it](../a.md#x:y), <sub>2</sub>.\n"
        "{: .note #own width=3 }\n\n`<script>` and `x: javascript:`, {a: b}.\n\n"
        "- [mail](mailto:a@example.org)[^1]\n\n[^1]: Note: a word.\n\n<!-- <script> -->\n"
    )
    assert load(lab.entry(body=body), lab.repository)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<img src="x.png" alt="[?](#time)">', "an attribute or a title"),
        ('<img src="x.png"\nalt="a > b [?](#time)">', "an attribute or a title"),
        ('[x](../a.md "[?](#time)")', "an attribute or a title"),
        ('[x]: ../a.md "[?](#time)"', "an attribute or a title"),
        ('Words.\n{: title="[?](#time)" }', "an attribute or a title"),
        ("Words:\n\n    x = 1\n    [?](#time)", "indented code"),
        ("- item\n\n        [?](#time)", "indented code"),
        (">     [?](#time)", "indented code"),
        ("\t[?](#time)", "indented code"),
        ("![took [?](#time)](x.png)", "a link or an image's text"),
        ("[we took [?](#time) here](../a.md)", "a link or an image's text"),
    ],
)
def test_a_number_that_would_not_show_as_one_is_refused_at_its_line(lab, body, problem):
    fault = only(faults_of(lab, body=f"\n{body}\n"))
    assert fault.startswith(lab.line(lab.root / "entries/2026-12-02-one-sum.md", "[?](#time)"))
    assert problem in fault


def test_a_number_in_a_list_a_quote_or_brackets_is_right(lab):
    body = (
        "\n- item\n\n    It took [?](#time).\n    - inner\n\n        [?](#time)\n\n"
        "> [?](#time)\n\n`x` [?](#time), [as [?](#time) says] and [x](#claims) too:\n"
        "    [?](#time)\n\n!!! note\n\n    [?](#time)\n\n| a |\n|---|\n| [?](#time) |\n"
    )
    assert len(load(lab.entry(body=body), lab.repository).body.links) == 8


@pytest.mark.parametrize(
    "text",
    [
        "<!-- ", "# " + " " * 70_000 + "x", "1,", "`a``b```c", "# a\n", "[x](#y) ", "<a ", "{#",
        "## {" + "#" * 70_000, "<" + " " * 70_000, "[", "![", "\\`", "[?](#time) ", "[x](a:b)\n",
        "".join("`" * run + " " for run in range(1, 380)), "    [?](#time)\n\n", "&#", "<![CDATA[",
    ],
)  # fmt: skip
def test_reading_takes_time_in_proportion_to_the_text(lab, text):
    """75 KB of anything; what is quadratic takes many seconds."""
    path = lab.entry(body="\n" + text * (75_000 // len(text)) + "\n")
    start = time.perf_counter()
    with contextlib.suppress(Faults):
        load(path, lab.repository)
    assert time.perf_counter() - start < 6


@pytest.mark.parametrize(
    ("body", "line", "problem", "remedy"),
    [
        ("[?](#fats)", "fats", "no claim, value or heading 'fats'", "use fast"),
        ("## Very fast\n\n[x](#very-fats)", "fats", "heading 'very-fats'", "use very-fast"),
        ("## Fast", "## Fast", "'fast' is a claim", "otherwise"),
        ("## In [?](#time)", "## In", "measured number in a heading", "below"),
        ("# Title", "# Title", "heading of level 1", "##"),
        ("Title\n=====", "Title", "heading of level 1", "##"),
        ("[ten\ntimes](#fast)", "[ten", "spans lines", "[?](#fast)"),
        ("```python\nx", "```python", "never closed", "close it"),
        ("- a\n\n    ```figure\n    ```", "```figure", "stands alone", "start the line"),
        ("```figure wide\n```", "```figure", "stands alone", "start the line"),
        ("<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x", "<<<<<<<", "merge", "keep one side"),
        ("```\n>>>>>>> x\n```", ">>>>>>>", "merge", "keep one side"),
        ("bell \x07", "bell", "control character", "remove"),
        ("turned \u202e round", "turned", "control character", "remove"),
        ("<script src=x>", "<script", "active HTML", "backticks"),
        ("<img src=x onerror=alert(1)>", "<img", "active HTML", "backticks"),
        ("[x](javascript:alert)", "javascript", "active HTML", "backticks"),
    ],
)
def test_a_narrative_that_is_wrong(lab, body, line, problem, remedy):
    fault = only(faults_of(lab, body=f"\n{body}\n"))
    assert fault.startswith(lab.line(lab.root / "entries/2026-12-02-one-sum.md", line))
    assert problem in fault
    assert remedy in fault


FIGURE = "kind: lines\nmetric: latency\naxis: batch\nsubjects: [kernel, peer]\ntitle: Flat\n"


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("kind: lines", "kind: pie", "is no choice here; use one of: bars, curve, lines, ratios"),
        ("metric: latency", "metric: latancy", "no metric 'latancy'; use latency"),
        ("[kernel, peer]", "[kernal, peer]", "no subject 'kernal'; use kernel"),
        ("[kernel, peer]", "[]", "subjects: is empty"),
        ("[kernel, peer]", "[peer, peer]", "named twice"),
        ("metric: latency", "metric: speedup", "speedup over what?"),
        ("metric: latency", "metric: latency\nover: peer", "latency is not over"),
        ("title: Flat", "titel: Flat", "no key 'titel' is known here; use title"),
        ("title: Flat", "title: ''", "title: is empty"),
        ("title: Flat", "title: Flat\nworkload: batch", "not name=value"),
        ("title: Flat", "title: Flat\ntitle: Flat", "also on line"),
        (FIGURE, "- a\n", "is not keys"),
    ],
)
def test_a_figure_block_that_is_wrong(lab, before, after, problem):
    body = f"\n```figure\n{FIGURE.replace(before, after)}```\n"
    faults = faults_of(lab, body=body)
    assert any(problem in fault for fault in faults), faults
    assert all(fault.startswith("entries/2026-12-02-one-sum.md:") for fault in faults)


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("file: kernal.py", "there is no 'kernal.py' in artifacts/row-sum; use kernel.py"),
        ("file: ../../../etc/passwd", "leaves the artifact"),
        ("file: /etc/passwd", "is no file name"),
        ('file: "kernel.py\\0"', "is no file name"),
        ("file: ../other/kernel.py", "leaves the artifact"),
        ("file: a/../../x.py", "leaves the artifact"),
        ("file: kernel.py\nregion: kernal", "there is no 'kernal' in kernel.py; use kernel"),
        ("file: open.py\nregion: open", "'open' of open.py is never closed"),
        ("file: latin.py", "is not UTF-8"),
        ("region: kernel", "'file' is missing"),
    ],
)
def test_a_source_block_that_is_wrong(lab, block, problem):
    folder = lab.root / "artifacts" / "row-sum"
    (folder / "open.py").write_text("# region: open\n")
    (folder / "latin.py").write_bytes(b"\xe9\n")
    assert problem in only(faults_of(lab, body=f"\n```source\n{block}\n```\n"))


def test_a_source_file_that_is_a_link_out_of_the_artifact_is_refused(lab, tmp_path):
    (tmp_path / "outside.py").write_text("secret")
    (lab.root / "artifacts" / "row-sum" / "link.py").symlink_to(tmp_path / "outside.py")
    fault = only(faults_of(lab, body="\n```source\nfile: link.py\n```\n"))
    assert "leaves the artifact" in fault


def test_code_is_nobodys_business(lab):
    """Links, merge-like rules, YAML and blocks inside code, inline code and comments are left alone."""
    body = (
        "\n`[?](#nowhere)` and ``a ` [?](#nowhere)``\n\n"
        "~~~~\n---\ntitle: x\n```figure\n[?](#nowhere)\n~~~\n~~~~\n\n"
        "<!-- [?](#nowhere)\n\n[?](#nowhere) -->\n\n\\[?](#nowhere)\n\n"
        "```markdown\n# region\n<script>\n```\n"
    )
    entry = load(lab.entry(body=body), lab.repository)
    assert entry.body.links == ()
    assert entry.body.blocks == ()


def test_a_link_to_a_heading_or_a_section_is_no_number(lab):
    body = "\n## The `kernel` itself\n\n## Same\n\n## Same\n\n## Own {#mine}\n\n"
    links = "[a](#the-kernel-itself) [b](#same_1) [c](#mine) [d](#claims) [e](#provenance)\n"
    assert load(lab.entry(body=body + links), lab.repository).body.links == ()


def test_crlf_and_a_byte_order_mark_are_accepted_and_kept(lab):
    path = lab.entry(newline="\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    before = path.read_bytes()
    entry = load(path, lab.repository)
    after = fill(entry, lab.repository).encode()
    assert after == before.replace(b"[?](#fast)", "[12×](#fast)".encode()).replace(
        b"[?](#time)", "[10.0 µs](#time)".encode()
    )


def test_fill_leaves_all_else_byte_for_byte(lab):
    body = (
        "\nOld [3×](#fast).  \n\n```\n[?](#fast)\n```\n`[?](#fast)`\t[x](#h)\n\n## H\n\n[?](#time)"
    )
    path = lab.entry(body=body)
    filled = fill(load(path, lab.repository), lab.repository)
    wanted = body.replace("[3×]", "[12×]").replace("\n\n[?](#time)", "\n\n[10.0 µs](#time)")
    assert filled == f"---\n{FRONT}---\n{wanted}"
    path.write_text(filled, newline="")
    assert fill(load(path, lab.repository), lab.repository) == filled


def test_several_workloads_are_filled_as_a_range(tmp_path):
    lab = Lab(tmp_path / "lab")
    slow = measured("latency", "kernel", [20e-6] * 6, batch=2)
    lab.publish(lab.artifact(), [*timed(batch=31), slow])
    front = FRONT.replace("subject: kernel, workload: batch=31}", "subject: kernel}")
    filled = fill(load(lab.entry(front), lab.repository), lab.repository)
    assert "[9.90–20.0 µs](#time)" in filled


def test_a_stale_record_fills_nothing(lab):
    path = lab.entry(body="\n[7×](#fast)\n")
    (lab.root / "artifacts" / "row-sum" / "kernel.py").write_text(KERNEL + "# changed\n")
    assert "[7×](#fast)" in fill(load(path, lab.repository), lab.repository)


def test_a_byte_that_is_not_utf8_names_its_line(lab):
    path = lab.entry()
    path.write_bytes(path.read_bytes() + b"\n\xff\n")
    with pytest.raises(Faults, match=r"one-sum.md:22: the byte 0xff is not UTF-8; save"):
        load(path, lab.repository)


@pytest.mark.parametrize("text", ["", "---", "---\n", "# x\n", "\n---\na: b\n---\n", "---\na: b\n"])
def test_no_front_matter_is_a_fault(lab, text):
    path = lab.entry()
    path.write_text(text)
    with pytest.raises(Faults, match="no front matter"):
        load(path, lab.repository)


def test_empty_front_matter_misses_its_keys(lab):
    assert "'title' is missing" in only(faults_of(lab, front=""))


@pytest.mark.parametrize(
    "name", ["one-sum.md", "2026-12-02-One.md", "2026-13-02-one.md", "2026-12-02-.md"]
)
def test_a_file_name_that_is_none(lab, name):
    assert "is no name of an entry" in only(faults_of(lab, name=name))


def test_an_entry_that_points_out_of_the_repository_is_refused(lab, tmp_path):
    (tmp_path / "far.md").write_text("---\n---\n")
    path = lab.root / "entries" / "2026-12-02-far.md"
    path.symlink_to(tmp_path / "far.md")
    with pytest.raises(Faults, match="leaves the folder"):
        load(path, lab.repository)


def test_an_entry_that_is_gone_is_a_fault(lab):
    with pytest.raises(Faults, match="cannot be read"):
        load(lab.root / "entries" / "2026-12-02-gone.md", lab.repository)


def test_two_entries_with_one_slug(lab):
    lab.entry(FRONT.replace("2026-12-02", "2026-12-03"), name="2026-12-03-one-sum.md")
    entries, faults = load_all(lab.repository)
    assert [entry.place for entry in entries] == ["entries/2026-12-02-one-sum.md"]
    assert "'one-sum' is also that of entries/2026-12-02-one-sum.md" in str(faults[0])


@QUICK
@given(content=st.binary(max_size=400))
def test_any_bytes_parse_or_are_faulted(lab, content):
    path = lab.root / "entries" / "2026-12-02-one-sum.md"
    path.write_bytes(content)
    with pytest.raises(Faults):
        load(path, lab.repository)


yaml_like = st.text(
    alphabet=st.sampled_from("abc01.-+e:,[]{}&*!|>'\"#%@ \n\t~é\u2028"), max_size=60
)


@QUICK
@given(words=yaml_like, at=st.integers(0, len(FRONT)))
def test_any_front_matter_parses_or_is_faulted(lab, words, at):
    path = lab.entry(FRONT[:at] + words + FRONT[at:])
    try:
        load(path, lab.repository)
    except Faults as caught:
        assert caught.faults  # noqa: PT017 - it may also parse


markdown_like = st.text(alphabet=st.sampled_from('ab`~[]()#?<>!-=*\\ \n\r\t"fast'), max_size=120)


@QUICK
@given(body=markdown_like)
def test_any_narrative_parses_or_is_faulted_and_fill_touches_only_links(lab, body):
    path = lab.entry(body=body)
    try:
        entry = load(path, lab.repository)
    except Faults as caught:
        assert caught.faults  # noqa: PT017 - it may also parse
    else:
        if not entry.body.links:
            assert fill(entry, lab.repository).encode() == path.read_bytes()


@pytest.mark.parametrize(
    "front",
    [
        "[" * 5000,
        "a: &a [*a]\n",
        "a: &a\n  b: *a\n",
        "claims: &c {x: *c}\n" + FRONT.replace("claims:", "other:"),
        "? {a: b}\n: c\n",
        "a: !!int ''\n",
        "a: !!timestamp x\n",
        "a: " + "9" * 5000 + "\n",
        "a: \ufffe\n",
    ],
)
def test_yaml_that_could_hurt_is_faulted(lab, front):
    assert faults_of(lab, front)


def test_an_empty_sentence_is_no_claim(lab):
    says = "says: The kernel is at least ten times faster."
    assert "says: is empty" in only(faults_of(lab, FRONT.replace(says, 'says: " "')))


def test_nan_in_a_workload_is_a_word_and_not_a_number(lab):
    faults = faults_of(lab, FRONT.replace("batch=31\n", "batch=nan\n"))
    assert "no workload 'batch=nan' was measured; use batch=31" in faults[0]


def test_a_metric_that_was_not_measured_of_that_subject(lab):
    front = FRONT.replace("{metric: latency, subject: kernel", "{metric: mismatches, subject: peer")
    assert "no mismatches of 'peer' was measured; use" in only(faults_of(lab, front))


def test_a_folder_full_of_names_lists_only_some(lab):
    for number in range(12):
        lab.artifact(f"zz-{number}")
    assert ", ..." in only(faults_of(lab, FRONT.replace("row-sum", "qqqqq")))


def test_an_entry_over_a_megabyte_is_refused(lab):
    assert "over a megabyte" in only(faults_of(lab, body="x" * 1_000_001))
