"""The tables of an entry: claims with what was reported, measured and judged; values; failures."""

import pytest
from factory import FRONT, Lab, lab_with_entry, measured, timed
from pages import B200, Tags, on, publish_b200, publish_later, row, shown, slow

from warplog.claim import Verdict
from warplog.source import Artifact
from warplog.verdicts import badge


@pytest.fixture
def lab(tmp_path):
    return lab_with_entry(tmp_path / "lab")


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
    found = row(shown(lab), "fast")
    assert f'data-head="Holds if">{words}</td>' in found
    assert f'<span class="wl-interval">11.9–12.1×</span>{badge(Verdict(verdict))}' in found


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


@pytest.mark.parametrize(
    ("low", "high", "bounds", "note"),
    [
        (9.998, 12, "at_least: 10", True),  # inconclusive, and 10.0 to 12.0 would look supported
        (9.98, 12, "at_least: 10", False),
        (10, 12, "at_least: 10", False),
        (8, 10, "at_least: 10", False),  # 10 is within
        (11, 12.0004, "at_most: 12", True),
        (12.0004, 14, "at_most: 12", True),
        (0.99994, 0.99994, "at_least: 1", True),
        (12, 12.04, "equals: 12", True),
    ],
)
def test_an_end_outside_that_shows_as_the_bound_says_so(tmp_path, low, high, bounds, note):
    lab = Lab(tmp_path / "lab")
    runs = [low, high, high, high, high, high]
    speed = measured("speed", "kernel", runs, unit="ratio", batch=31)
    lab.publish(lab.artifact(), [*timed(batch=31), speed])
    front = FRONT.replace("at_least: 10", bounds).replace("metric: speedup", "metric: speed")
    lab.entry(front.replace("    over: peer\n", ""))
    assert ("outside by less than three digits show" in shown(lab)) is note


@pytest.mark.parametrize(
    ("unit", "value", "bound"), [("rows", 12_345, 12_346), ("fraction", 0.99999, 1)]
)
def test_an_end_that_shows_outside_needs_no_note(tmp_path, unit, value, bound):
    """Whole counts and fractions close to all show more than three digits."""
    lab = Lab(tmp_path / "lab")
    part = measured("part", "kernel", [value] * 6, unit=unit, batch=31)
    lab.publish(lab.artifact(), [*timed(batch=31), part])
    front = FRONT.replace("at_least: 10", f"at_least: {bound}")
    lab.entry(front.replace("metric: speedup", "metric: part").replace("    over: peer\n", ""))
    assert "refuted" in row(shown(lab), "fast")
    assert "outside by less" not in shown(lab)


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
    note = '<div class="wl-about">one run</div>'
    assert note in row(text, "reads")
    assert note in row(text, "bytes")
    assert note not in row(text, "exact")
    assert note not in row(text, "time")
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
    found = row(shown(lab), "fast")
    assert f">{words}<div" in found
    assert f"&ge; {words}" in found


def test_a_metric_of_a_stale_record_still_lends_its_unit(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.publish(lab.artifact(), timed(batch=31))
    claim = "  few: {says: Few., metric: mismatches, subject: kernel, at_most: 3}\nvalues:"
    lab.entry(FRONT.replace("values:", claim))
    (lab.root / "artifacts/row-sum/kernel.py").write_text("pass\n")
    assert "&le; 3 rows" in row(shown(lab), "few")


def test_a_badge_is_icon_word_and_tint():
    for verdict in Verdict:
        text = badge(verdict)
        assert f"wl-{verdict}" in text
        assert f"</span> {verdict}</span>" in text
        assert 'aria-hidden="true">' in text


def test_what_was_reported_stands_beside_with_its_source(lab):
    reported = "{value: 32.9, device: nvidia-b200, by: the post, url: 'https://example.org/a?b&c'}"
    lab.entry(FRONT.replace("at_least: 10", f"at_least: 10\n    reported: {reported}"))
    found = row(shown(lab), "fast")
    assert ">32.9×<div" in found
    assert (
        'nvidia-b200, <a href="https://example.org/a?b&amp;c" rel="noopener">the post</a>' in found
    )


def test_a_table_in_which_nothing_was_reported_has_no_such_column(lab):
    assert "Reported" not in shown(lab)


def test_a_device_may_be_called_as_a_column_is(lab):
    publish_b200(lab, environment=on(lab.artifact(), B200 | {"name": "Reported"}))
    assert row(shown(lab), "fast").count('data-head="Reported"') == 1


def test_a_claim_and_a_value_carry_their_anchor_in_sight(lab):
    text = shown(lab)
    for name in ("fast", "time"):
        assert '<th scope="row"' in row(text, name)
        assert f'<a class="wl-id" href="#{name}">{name}</a>' in row(text, name)


CAUSE = "at_least: 10\n    cause: The post timed an empty queue."


def test_the_cause_stands_under_a_claim_that_is_refuted_anywhere(lab):
    lab.entry(FRONT.replace("at_least: 10", CAUSE))
    assert "empty queue" not in shown(lab)
    publish_b200(lab)
    found = row(shown(lab), "fast")
    assert (
        '<div class="wl-cause"><strong>Why:</strong> The post timed an empty queue.</div>' in found
    )


def test_a_value_that_was_not_measured_says_why(lab):
    front = FRONT.replace("{metric: latency", "{metric: roofline_fraction")
    lab.entry(front)
    text = shown(lab)
    reason = "no record of the artifact ceilings for this device"
    assert f'not measured<div class="wl-about">{reason}</div>' in text


def test_a_range_that_was_reported_in_words_stays_words(lab):
    reported = "{value: 4 to 33 times, device: nvidia-b200, by: the post}"
    lab.entry(FRONT.replace("at_least: 10", f"at_least: 10\n    reported: {reported}"))
    assert ">4 to 33 times<div" in shown(lab)


def test_each_device_has_its_own_verdict_and_the_entrys_own_stands_first(lab):
    publish_b200(lab, device="amd-something", environment=on(lab.artifact(), {"name": "AMD Some"}))
    text = shown(lab)
    assert text.index('<th scope="col">H200') < text.index('<th scope="col">Some')
    found = row(text, "fast")
    assert found.index("wl-supported") < found.index("wl-refuted")


def test_a_device_without_a_record_has_a_column_that_says_so(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.artifact()
    lab.entry()
    text = shown(lab)
    assert '<th scope="col">H200<div class="wl-about">no record</div></th>' in text
    assert row(text, "fast").endswith(f'<td data-head="H200">{badge(Verdict.UNTESTED)}</td></tr>')
    assert "no record from this device" in row(text, "time")


@pytest.mark.parametrize(("count", "boxed"), [(4, False), (5, True)])
def test_more_devices_than_fit_beside_each_other_scroll_in_their_box(lab, count, boxed):
    for number in range(1, count):
        publish_b200(lab, device=f"gpu-{number}")
    assert (
        '<div class="wl-scroll" tabindex="0"><table class="wl-table wl-claims' in shown(lab)
    ) is boxed


@pytest.mark.parametrize(("count", "tall"), [(12, False), (13, True)])
def test_many_values_scroll_in_a_box_that_an_anchor_reaches(lab, count, tall):
    """An anchor scrolls a box everywhere; not every browser opens what is folded."""
    line = "  time: {metric: latency, subject: kernel, workload: batch=31}\n"
    lab.entry(FRONT + "".join(line.replace("time", f"time-{n}") for n in range(1, count)))
    assert ('<div class="wl-scroll wl-tall" tabindex="0">' in shown(lab)) is tall


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
    assert '<th scope="col">H200<div class="wl-about">stale</div></th>' in text
    assert badge(Verdict.UNTESTED) in row(text, "fast")
    assert "changed since" not in row(text, "fast")  # said once, above
    assert "12×" not in text.replace("&ge; 10×", "")
    assert "not measured" in row(text, "time")


def test_a_failed_subject_is_shown_with_its_output_made_safe(tmp_path):
    lab = Lab(tmp_path / "lab")
    reason = "```\n<script>alert(1)</script>\n\x1b[31mred\x1b[0m\n" + "x" * 70_000
    failed = measured("latency", "wild", None, failed=reason, batch=31)
    lab.publish(lab.artifact(), [*timed(batch=31), failed])
    claim = "  wild: {says: It is fast., metric: latency, subject: wild, at_most: 1}\nvalues:"
    lab.entry(FRONT.replace("values:", claim))
    text = shown(lab)
    assert '<pre class="wl-output" tabindex="0">' in text
    assert "```\n&lt;script&gt;alert(1)&lt;/script&gt;\nred\n" in text
    assert "68000 characters left out" in text
    assert "script" not in Tags(text).names
    assert "\x1b" not in text


def test_where_nothing_failed_nothing_is_said_of_failures(lab):
    assert "wl-failures" not in shown(lab)


def test_a_number_with_one_record_has_no_history(lab):
    assert "records" not in row(shown(lab), "fast")


def test_records_that_agree_need_one_line(lab):
    publish_later(lab, timed(batch=31))
    assert '<div class="wl-about">2 records agree</div>' in row(shown(lab), "fast")


def test_records_that_did_not_measure_it_agree_on_nothing(tmp_path):
    lab = Lab(tmp_path / "lab")
    failed = measured("latency", "peer", None, failed="no memory", batch=31)
    for day in (2, 3):
        publish_later(lab, [timed(batch=31)[0], failed], day)
    lab.entry()
    found = row(shown(lab), "fast")
    assert '<div class="wl-about">not measured in 2 records</div>' in found
    assert "agree" not in found


def test_the_history_of_a_number_is_newest_first_with_interval_and_verdict(lab):
    publish_later(lab, slow(16, batch=31))
    found = row(shown(lab), "fast")
    assert "<summary>2 records</summary>" in found
    newer = f"<li><time>2026-12-03 10:15</time> 16× {badge(Verdict.SUPPORTED)}</li>"
    older = f"<li><time>2026-12-02 10:15</time> 12.0× {badge(Verdict.SUPPORTED)}</li>"
    assert f"<ol>{newer}{older}</ol>" in found


def test_a_record_of_other_source_is_marked_in_the_history(lab):
    (lab.root / "artifacts/row-sum/kernel.py").write_text("def total(values): ...\n")
    lab.publish(
        Artifact("row-sum", lab.root / "artifacts/row-sum"),
        slow(16, batch=31),
        recorded="2026-12-03T10:15:00Z",
    )
    found = row(shown(lab), "fast")
    assert found.count("other source") == 1
    assert found.index("2026-12-02 10:15") < found.index("other source")


def test_a_record_that_did_not_measure_it_says_so_in_the_history(lab):
    publish_b200(lab)
    publish_later(lab, [measured("mismatches", "kernel", [0] * 6, unit="rows", batch=31)])
    assert f"not measured {badge(Verdict.UNTESTED)}" in row(shown(lab), "fast")
