"""The head of a page: what it is, and what came of it on each GPU at one glance."""

import re

import pytest
from factory import FRONT, Lab, lab_with_entry, measured, timed
from pages import B200, on, outcome, publish_b200, publish_later, shown, slow

from warplog.head import architecture, head


@pytest.fixture
def lab(tmp_path):
    return lab_with_entry(tmp_path / "lab")


def columns(lab):
    return re.findall(r'<div class="wl-result">.*?</div>', head(outcome(lab)))


def test_the_date_is_written_out_and_a_machine_reads_it_too(lab):
    assert '<time datetime="2026-12-02">2 December 2026</time>' in head(outcome(lab))


def test_a_tag_leads_to_the_entries_that_have_it(lab):
    lab.entry(FRONT.replace("[pytorch", '["C++"'))
    assert re.search(r'<a href="../tags.html#c-[0-9a-f]{6}">C\+\+</a>', head(outcome(lab)))
    assert '<a href="../tags.html#sums">sums</a>' in head(outcome(lab))


def test_one_line_names_the_headline_and_leads_to_its_row(lab):
    line = '<p class="wl-headline"><a href="#fast">Speedup of kernel over peer, batch=31</a></p>'
    assert line in head(outcome(lab))


def test_the_headline_may_be_a_value(lab):
    lab.entry(FRONT + "headline: time\n")
    text = head(outcome(lab))
    assert '<a href="#time">Latency of kernel, batch=31</a>' in text
    assert ">10.0 µs</a></p>" in text


def test_an_entry_without_claims_and_values_has_no_headline(lab):
    lab.entry(FRONT.partition("claims:")[0] + "claims: {}\n", "\nNone.\n")
    text = head(outcome(lab))
    assert "wl-headline" not in text
    assert "wl-result-number" not in text
    assert "no claims" in text


def test_a_column_has_name_architecture_number_record_and_spread(lab):
    lab.entry(FRONT + "headline: time\n")
    (column,) = columns(lab)
    record = "../artifacts/row-sum/records/nvidia-h200/2026-12-02T101500Z.json"
    assert "<strong>NVIDIA H200</strong><span>sm_90</span>" in column
    assert f'<p class="wl-result-number"><a href="{record}">10.0 µs</a></p>' in column
    assert '<p class="wl-result-spread">9.90 to 10.1 µs over 6 runs</p>' in column


def test_runs_that_do_not_differ_are_the_same(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.publish(lab.artifact(), slow(20, batch=31))
    lab.entry()
    assert ">the same in 6 runs</p>" in columns(lab)[0]


def test_runs_that_differ_beyond_what_shows_are_alike_and_not_the_same(tmp_path):
    lab = Lab(tmp_path / "lab")
    kernel = [1e-4, 1e-4, 1.0002e-4, 1e-4, 1e-4, 1e-4]
    rows = [measured("latency", "kernel", kernel, batch=31), slow(20, batch=31)[1]]
    lab.publish(lab.artifact(), rows)
    lab.entry()
    assert ">alike to three digits in 6 runs</p>" in columns(lab)[0]


def test_an_interval_from_below_zero_has_two_ends(tmp_path):
    lab = Lab(tmp_path / "lab")
    drift = measured("drift", "kernel", [-5, -3, -4, -4, -4, -4], unit="degrees", batch=31)
    lab.publish(lab.artifact(), [*timed(batch=31), drift])
    lab.entry(FRONT + "  drift: {metric: drift, subject: kernel}\nheadline: drift\n")
    assert ">-5 to -3 degrees over 6 runs</p>" in columns(lab)[0]


def test_a_headline_over_several_workloads_says_how_many_and_is_set_smaller(tmp_path):
    lab = Lab(tmp_path / "lab")
    lab.publish(lab.artifact(), [*timed(batch=1), *slow(1900, batch=2)])
    lab.entry(FRONT.replace("    workload: batch=31\n", "").replace(", workload: batch=31", ""))
    assert '<p class="wl-result-number wl-long">' in columns(lab)[0]
    assert "over 6 runs on 2 workloads</p>" in columns(lab)[0]


def test_a_sign_a_claim_says_its_verdict_and_leads_to_its_row(lab):
    title = "Supported: The kernel is at least ten times faster."
    assert (
        f'<a class="wl-dot wl-supported" href="#fast" title="{title}">'
        '<span aria-hidden="true">\u2713</span></a>'
    ) in columns(lab)[0]


def test_claims_that_share_a_verdict_show_it_and_others_are_counted(lab):
    assert '</span> supported</span> <span class="wl-about">its one claim' in columns(lab)[0]
    claim = "  few: {says: Few., metric: mismatches, subject: kernel, at_least: 3}\nvalues:"
    lab.entry(FRONT.replace("values:", claim))
    assert '</span> mixed</span> <span class="wl-about">1 supported, 1 refuted' in columns(lab)[0]
    lab.entry(FRONT.replace("values:", claim.replace("at_least: 3", "at_most: 3")))
    assert "all 2 claims" in columns(lab)[0]


def test_of_the_refuted_claims_those_that_others_reported_are_counted(lab):
    claim = "  few: {says: Few., metric: mismatches, subject: kernel, at_least: 3%s}\nvalues:"
    lab.entry(FRONT.replace("values:", claim % ""))
    assert "reported elsewhere" not in columns(lab)[0]
    reported = ", cause: None., reported: {value: 3, device: a, by: b}"
    lab.entry(FRONT.replace("values:", claim % reported))
    assert "1 supported, 1 refuted; 1 of the refuted reported elsewhere" in columns(lab)[0]


def test_every_device_has_a_column_and_four_stand_beside_each_other(lab):
    for number in range(1, 6):
        publish_b200(lab, device=f"gpu-{number}")
    assert len(columns(lab)) == 6
    assert '<div class="wl-results wl-results-4">' in head(outcome(lab))


def test_a_device_without_evidence_is_not_measured_here(tmp_path):
    lab = Lab(tmp_path / "lab")
    publish_b200(lab)
    lab.entry()
    own, other = columns(lab)
    assert "<strong>nvidia-h200</strong>" in own
    assert "not measured here" in own
    assert "wl-untested" in own
    assert "1×" in other


def test_a_record_without_the_headline_says_not_measured_here(lab):
    publish_b200(lab)
    publish_later(lab, [measured("mismatches", "kernel", [0] * 6, unit="rows", batch=31)])
    assert ">not measured here</a></p>" in columns(lab)[0]


def test_a_stale_or_disturbed_column_says_so_and_a_stale_one_shows_no_number(lab):
    publish_b200(lab, disturbed=["thermal slowdown"])
    assert '<span class="wl-mark">disturbed</span>' in columns(lab)[1]
    assert "1×" in columns(lab)[1]
    (lab.root / "artifacts/row-sum/kernel.py").write_text("def total(values): ...\n")
    own = columns(lab)[0]
    assert '<span class="wl-mark">stale</span>' in own
    assert ">measured from other source</a></p>" in own
    assert "12×" not in own


@pytest.mark.parametrize(
    ("capability", "words"), [("9.0", "sm_90"), ("12.0", "sm_120"), ("gfx942", ""), (None, "")]
)
def test_an_architecture_is_named_as_compilers_name_it(lab, capability, words):
    gpu = B200 | {"compute_capability": capability} if capability else {"name": "Other"}
    publish_b200(lab, environment=on(lab.artifact(), gpu))
    assert architecture(outcome(lab).columns[1].evidence) == words


def test_many_signs_can_be_skipped(lab):
    assert "wl-skip" not in head(outcome(lab))
    claim = "  claim-{}: {{says: Few., metric: mismatches, subject: kernel, at_most: 3}}\n"
    lab.entry(FRONT.replace("values:", "".join(map(claim.format, range(11))) + "values:"))
    text = head(outcome(lab))
    target = re.search(r'class="wl-skip" href="#(\w+)"', text)[1]
    assert text.index(f'id="{target}"') > text.rindex("wl-dot")


@pytest.mark.parametrize("name", ["", "  "])
def test_a_gpu_without_a_name_is_called_as_its_folder(lab, name):
    publish_b200(lab, environment=on(lab.artifact(), B200 | {"name": name}))
    assert "<strong>nvidia-b200</strong>" in columns(lab)[1]


def test_the_head_comes_first(lab):
    assert shown(lab).lstrip().startswith('<header class="wl-head">')
