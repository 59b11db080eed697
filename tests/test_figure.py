"""Figures: every mark is a spread, every text is escaped, what is drawn is in the table, the rest is a fault.

The pictures under golden/ are written anew by `WARPLOG_GOLDEN=write pytest tests/test_figure.py`: look at
them then.
"""

import os
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from factory import H200, Lab, measured, record_of, timed

from warplog.block import FigureBlock, read_block
from warplog.evidence import Evidence
from warplog.fault import Fault
from warplog.figure import draw, drawn, panels
from warplog.passage import Passage
from warplog.source import Change

SVG = "{http://www.w3.org/2000/svg}"
GOLDEN = Path(__file__).parent / "golden"
SPREAD = (1, 1.01, 0.99, 1.003, 1.002, 0.995)


def block(**fields):
    return FigureBlock(
        **{
            "kind": "lines",
            "metric": "latency",
            "axis": "batch",
            "subjects": ["kernel", "peer"],
            "title": "It stays flat",
            "place": "entries/x.md:7",
            **fields,
        }
    )


@pytest.fixture
def artifact(tmp_path):
    return Lab(tmp_path / "lab").artifact()


@pytest.fixture
def evidence(artifact):
    """What makes evidence of measurements; `gpu` names the device, `ceilings` is its record of them."""

    def make(measurements, *, changed=None, ceilings=None, gpu=None):
        record = record_of(artifact, measurements)
        if gpu is not None:
            environment = msgspec.structs.replace(record.environment, gpu={**H200, "name": gpu})
            record = msgspec.structs.replace(record, environment=environment)
        return Evidence(record, artifact.records / "cpu" / "x.json", changed or {}, ceilings)

    return make


@pytest.fixture
def two(evidence):
    """Two batches of two subjects."""
    return evidence([*timed(batch=1), *timed(batch=31)])


@pytest.fixture
def ceilings(artifact):
    """A device that reads a terabyte in a second, and does a thousand operations meanwhile for each."""
    read = measured("latency", "loads", [1.0] * 6, traffic=10**12)
    product = measured("latency", "matmul", [1.0] * 6, work=10**15, dtype="bf16")
    return record_of(artifact, [read, product])


def counts(metric="mismatches", unit="rows", **subjects):
    """One count a size for each subject: `kernel=[0, 3]` counted 0 at size 1 and 3 at size 2."""
    return [
        measured(metric, name, [value] * 6, unit=unit, size=size)
        for name, values in subjects.items()
        for size, value in enumerate(values, start=1)
    ]


def training(subject, *losses):
    """The loss of `subject` at steps 0, 100, ..."""
    return [
        measured("loss", subject, [loss * share for share in SPREAD], unit="", step=100 * index)
        for index, loss in enumerate(losses)
    ]


def html(asked, *devices):
    return draw(asked, panels(asked, devices), 1, "")


def charts(text, name="wl-wide"):
    """The SVG elements in a figure; parsing them proves that they are well formed. Of a chart that is
    drawn in two widths, the one called `name`.
    """
    found = [ET.fromstring(each) for each in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    widths = [each for each in found if name in each.get("class").split()]
    return widths or found


def the_chart(asked, *devices, name="wl-wide"):
    (chart,) = charts(html(asked, *devices), name)
    return chart


def lines(chart):
    """The lines of the series, in the order in which they are drawn."""
    return [
        (group.get("class"), line)
        for group in chart.iter(f"{SVG}g")
        for line in group.findall(f"{SVG}polyline")
    ]


def words(chart):
    """The texts of a chart with their places."""
    return [
        (each.text, float(each.get("x")), float(each.get("y"))) for each in chart.iter(f"{SVG}text")
    ]


def marks(chart, name):
    return [each for each in chart.iter() if name in (each.get("class") or "").split()]


def fault(asked, *devices):
    with pytest.raises(Fault) as caught:
        panels(asked, devices)
    assert caught.value.place == "entries/x.md:7"
    return str(caught.value)


# Lines


def test_a_line_carries_the_spread_of_its_runs(two):
    chart = the_chart(block(), two)
    bands = marks(chart, "wl-band")
    assert len(bands) == len(lines(chart)) == 2
    heights = [float(point.split(",")[1]) for point in bands[-1].get("points").split()]
    assert heights[0] < heights[-1]


def test_our_kernel_is_drawn_last_and_thickest(two):
    drawn = lines(the_chart(block(), two))
    widths = [float(line.get("stroke-width")) for _, line in drawn]
    assert widths[-1] == max(widths) > widths[0]
    assert drawn[-1][0] == "wl-s0"


def test_a_baseline_is_grey_and_other_subjects_are_not(evidence):
    rows = [*timed(batch=1), *timed(batch=31)]
    rows += [measured("latency", "rival", [2e-5] * 6, batch=size) for size in (1, 31)]
    drawn = lines(the_chart(block(subjects=["kernel", "rival", "peer"]), evidence(rows)))
    assert [name for name, _ in drawn] == ["wl-s3", "wl-s1", "wl-s0"]


def test_of_several_subjects_timed_against_themselves_none_is_the_baseline(evidence):
    rows = [*timed(batch=1), *timed(batch=31)]
    rows += [measured("latency_again", "kernel", [1e-5] * 6, batch=size) for size in (1, 31)]
    drawn = lines(the_chart(block(), evidence(rows)))
    assert [name for name, _ in drawn] == ["wl-s1", "wl-s0"]


def test_series_differ_by_more_than_their_colour(evidence):
    names = [f"subject {number}" for number in range(12)]
    rows = [measured("latency", name, [1e-5] * 6, batch=size) for name in names for size in (1, 2)]
    chart = the_chart(block(subjects=names), evidence(rows))
    looks = []
    for group in chart.iter(f"{SVG}g"):
        line = group.find(f"{SVG}polyline")
        if line is not None:
            dot = marks(group, "wl-point")[0]
            outline = (dot.get("d") or "circle").partition("m")[2]
            looks.append((line.get("stroke-dasharray"), outline))
    assert len(set(looks)) == 12


def test_a_size_at_which_a_subject_failed_is_said_and_the_rest_is_drawn(evidence):
    wrong = measured("latency", "kernel", None, failed="<b> differs", batch=7)
    text = html(block(), evidence([*timed(batch=1), *timed(batch=31), wrong]))
    assert "Not drawn, because it failed: kernel at batch=7 (NVIDIA H200)." in text
    assert '<td>batch=7</td><td colspan="3">failed</td>' in text


def test_a_line_breaks_where_its_subject_failed(evidence):
    wrong = measured("latency", "kernel", None, failed="differs", batch=4)
    rows = [each for size in (1, 2, 8, 16) for each in timed(batch=size)]
    chart = the_chart(block(), evidence([*rows, wrong]))
    assert [name for name, _ in lines(chart)] == ["wl-s3", "wl-s0", "wl-s0"]


def test_a_line_goes_on_over_a_size_that_only_others_have(evidence):
    rows = [*timed(batch=1), *timed(batch=31), measured("latency", "peer", [1e-4] * 6, batch=8)]
    assert len(lines(the_chart(block(), evidence(rows)))) == 2


def test_a_subject_of_one_size_is_a_dot_with_its_whisker_beside_the_lines_of_others(evidence):
    rows = [
        measured("latency", "kernel", [1e-5, 2e-5] * 3, batch=4),
        *timed(batch=1),
        *timed(batch=31),
    ]
    rows = [each for each in rows if each.subject != "kernel" or each.workload == {"batch": 4}]
    chart = the_chart(block(), evidence(rows))
    own = [line.get("points").split() for name, line in lines(chart) if name == "wl-s0"]
    assert [len({point.split(",")[0] for point in points}) for points in own] == [1, 1]
    assert len(marks(chart, "wl-point")) == 3


@pytest.mark.parametrize(("many", "fewest"), [(299, 299), (301, 100), (3000, 100)])
def test_lines_of_any_length_have_a_dot_for_each_place_that_is_drawn(evidence, many, fewest):
    rows = [measured("latency", "kernel", [1e-5] * 6, batch=size) for size in range(1, many + 1)]
    chart = the_chart(block(subjects=["kernel"]), evidence(rows))
    ((_, line),) = [each for each in lines(chart) if each[0] == "wl-s0"]
    assert len(marks(chart, "wl-point")) == len(line.get("points").split()) >= fewest


def test_a_subject_that_failed_everywhere_cannot_be_drawn(evidence):
    wrong = [measured("latency", "kernel", None, failed="differs", batch=size) for size in (1, 2)]
    assert "'kernel' failed: differs" in fault(block(subjects=["kernel"]), evidence(wrong))


def test_only_what_has_the_size_of_the_axis_is_drawn(evidence):
    rows = [measured("latency", "kernel", [1e-5] * 6, width=8, batch=size) for size in (1, 2)]
    other = measured("latency", "kernel", [1.0] * 6, width=8, order="random")
    text = html(block(subjects=["kernel"], workload={"width": 8}), evidence([*rows, other]))
    assert "random" not in text


def test_a_count_that_is_zero_is_drawn_on_a_linear_scale(two):
    chart = the_chart(block(metric="mismatches", subjects=["kernel"], scale="linear"), two)
    assert "values on a linear one from zero" in chart.find(f"{SVG}desc").text


def test_a_size_that_is_a_number_in_quotes_is_an_axis(evidence):
    rows = [measured("latency", "kernel", [1e-5] * 6, bits=size) for size in ("8", "16")]
    assert the_chart(block(axis="bits", subjects=["kernel"]), evidence(rows)) is not None


# The bound


def test_a_floor_is_a_line_of_its_own_with_a_name_and_rows_in_the_table(evidence, ceilings):
    device = evidence([*timed(batch=1), *timed(batch=31)], ceilings=ceilings)
    text = html(block(bound="floor"), device)
    (chart,) = charts(text)
    (line,) = marks(chart, "wl-bound")
    assert line.get("stroke-dasharray")
    assert "floor" in [word for word, _, _ in words(chart)]
    assert "The floor: from 4 µs at batch 1 to 4 µs at batch 31." in chart.find(f"{SVG}desc").text
    assert text.count('<th scope="row"><em>floor</em></th>') == 2


def test_the_floor_lies_below_what_was_measured(evidence, ceilings):
    device = evidence([*timed(batch=1), *timed(batch=31)], ceilings=ceilings)
    chart = the_chart(block(bound="floor"), device)
    floor = float(marks(chart, "wl-bound")[0].get("points").split()[0].split(",")[1])
    ours = float(lines(chart)[-1][1].get("points").split()[0].split(",")[1])
    assert ours < floor


def test_where_subjects_must_move_different_amounts_the_floor_is_the_lowest(evidence, ceilings):
    rows = [
        measured("latency", name, [1e-3] * 6, traffic=traffic, batch=size)
        for name, traffic in (("kernel", 8_000_000), ("peer", 2_000_000))
        for size in (1, 2)
    ]
    text = html(block(bound="floor"), evidence(rows, ceilings=ceilings))
    assert "The floor: from 2 µs at batch 1 to 2 µs at batch 2." in text


def test_a_ceiling_crosses_the_whole_chart(evidence, ceilings):
    device = evidence([*timed(batch=1), *timed(batch=31)], ceilings=ceilings)
    text = html(block(metric="bandwidth", bound="ceiling"), device)
    (chart,) = charts(text)
    first, last = marks(chart, "wl-bound")[0].get("points").split()
    assert first.split(",")[1] == last.split(",")[1]
    assert "The ceiling: 1 TB/s." in chart.find(f"{SVG}desc").text


def test_a_bound_without_ceilings_is_a_fault_with_a_remedy(two):
    said = fault(block(bound="floor"), two)
    assert "no floor: no fresh record of the artifact ceilings" in said
    assert "reproduce the artifact ceilings" in said


def test_a_floor_without_traffic_or_work_is_a_fault_with_a_remedy(evidence, ceilings):
    rows = [measured("latency", "kernel", [1e-5] * 6, batch=size) for size in (1, 2)]
    said = fault(block(subjects=["kernel"], bound="floor"), evidence(rows, ceilings=ceilings))
    assert "no floor of 'kernel' at batch=1; state traffic= or work=" in said


def test_a_device_without_ceilings_is_drawn_without_the_bound_and_says_so(evidence, ceilings):
    rows = [*timed(batch=1), *timed(batch=31)]
    known, unknown = evidence(rows, ceilings=ceilings), evidence(rows, gpu="B200")
    text = html(block(bound="floor"), known, unknown)
    assert "No floor on B200: no fresh record of the artifact ceilings" in text
    assert [len(marks(chart, "wl-bound")) for chart in charts(text)] == [1, 0]


# Ratios


@pytest.fixture
def ratios():
    return block(kind="ratios", metric="speedup", over="peer", subjects=["kernel"])


def test_a_ratio_has_a_whisker_and_a_parity_line(two, ratios):
    chart = the_chart(ratios, two)
    (parity,) = marks(chart, "wl-parity")
    whiskers = [
        each.get("d") for each in chart.iter(f"{SVG}path") if each.get("stroke-width") == "2"
    ]
    assert len(whiskers) == len(marks(chart, "wl-point")) == 2
    at = float(parity.get("d")[1:].split()[0])
    assert all(at < float(path[1:].split()[0]) for path in whiskers)
    assert "parity" in [word for word, _, _ in words(chart)]


def test_parity_is_shown_where_every_ratio_is_far_from_it(evidence, ratios):
    rows = [
        measured("latency", name, [seconds] * 6, batch=1)
        for name, seconds in (("kernel", 1e-6), ("peer", 1e-4))
    ]
    (parity,) = marks(the_chart(ratios, evidence(rows)), "wl-parity")
    assert float(parity.get("d")[1:].split()[0]) > 0


def test_a_ratio_on_both_sides_of_parity_is_hollow(evidence, ratios):
    rows = [
        measured("latency", name, [1e-5 * share for share in shares], batch=size)
        for size in (1, 2)
        for name, shares in (("kernel", SPREAD), ("peer", SPREAD[::-1] if size == 1 else [2] * 6))
    ]
    text = html(ratios, evidence(rows))
    (chart,) = charts(text)
    assert len(marks(chart, "wl-ring")) == len(marks(chart, "wl-point")) == 1
    assert "hollow: parity lies within" in text


def test_the_baseline_against_itself_is_shown_beside_parity(two, ratios):
    text = html(ratios, two)
    assert len(marks(charts(text)[0], "wl-noise")) == 2
    assert "grey: the baseline against itself" in text


def test_several_subjects_stand_under_a_heading_for_each_size(evidence):
    rows = [measured("latency", "base", [1e-4] * 6, batch=size) for size in (1, 8)]
    rows += [*timed(batch=1), *timed(batch=8)]
    asked = block(kind="ratios", metric="speedup", over="base")
    found = [word for word, _, _ in words(the_chart(asked, evidence(rows)))]
    shown = [word for word in found if word in ("batch 1", "batch 8", "kernel", "peer")]
    assert shown == ["batch 1", "kernel", "peer", "batch 8", "kernel", "peer"]


def test_what_is_no_ratio_has_no_parity(two):
    said = fault(block(kind="ratios"), two)
    assert "latency is no ratio, so it has no parity; use the kind lines or bars" in said


# Bars


def bars(**fields):
    return block(**{"kind": "bars", "metric": "mismatches", "axis": "size", **fields})


def test_a_bar_starts_at_zero_and_ends_at_its_count(evidence):
    chart = the_chart(bars(subjects=["kernel"]), evidence(counts(kernel=[0, 2, 4])))
    widths = [float(each.get("width")) for each in chart.iter(f"{SVG}rect")]
    assert widths[0] == 0
    assert widths[2] == pytest.approx(2 * widths[1], abs=0.2)
    numbers = [each.text for each in marks(chart, "wl-number")]
    assert numbers == ["0", "2", "4"]


def test_a_bar_has_a_whisker_where_its_runs_differ(evidence):
    rows = [measured("rows", "kernel", [1, 2, 3, 4, 5, 6], unit="rows", size=1)]
    rows += counts("rows", peer=[3])
    asked = bars(metric="rows", axis=None, subjects=["kernel", "peer"])
    assert len(marks(the_chart(asked, evidence(rows)), "wl-over")) == 1


def test_a_count_has_no_ticks_between_whole_numbers(evidence):
    chart = the_chart(bars(subjects=["kernel"]), evidence(counts(kernel=[0, 1])))
    assert not [word for word, _, _ in words(chart) if "." in word]


def test_subjects_of_one_workload_need_no_axis(evidence):
    rows = counts(kernel=[3], peer=[5])
    chart = the_chart(bars(axis=None), evidence(rows))
    names = [word for word, _, _ in words(chart) if word in ("kernel", "peer")]
    assert names == ["kernel", "peer"]


def test_sizes_that_are_words_are_rows_in_the_order_of_the_record(evidence):
    rows = [measured("rows", "kernel", [1], unit="rows", ties=ties) for ties in ("some", "none")]
    chart = the_chart(bars(metric="rows", axis="ties", subjects=["kernel"]), evidence(rows))
    assert [word for word, _, _ in words(chart) if word in ("some", "none")] == ["some", "none"]


def test_a_row_that_a_device_lacks_keeps_its_place_and_says_so(evidence):
    both, one = evidence(counts(kernel=[1, 2])), evidence(counts(kernel=[1]), gpu="B200")
    failed = measured("mismatches", "kernel", None, unit="rows", failed="differs", size=2)
    wrong = evidence([*counts(kernel=[1]), failed], gpu="A100")
    first, second, third = charts(html(bars(subjects=["kernel"]), both, one, wrong))
    heights = [{word: y for word, _, y in words(chart)} for chart in (first, second, third)]
    assert heights[0]["2"] == heights[1]["\u2013"] == heights[2]["failed"]


def test_bars_that_their_names_tell_apart_have_two_colours(evidence):
    """The first and the others: a colour more would look as if it meant something."""
    names = ["kernel", "a", "b", "c", "d", "e"]
    rows = [
        measured("rows", name, [number], unit="rows") for number, name in enumerate(names, start=1)
    ]
    chart = the_chart(bars(metric="rows", axis=None, subjects=names), evidence(rows))
    classes = {each.get("class", "") for each in chart.iter()}
    assert len({name for name in classes if re.fullmatch(r"wl-s\d", name)}) == 2


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"axis": None},
            "several workloads of 'kernel'; name the other sizes in `workload:`, or add",
        ),
        ({"metric": "gain"}, "-1 of 'kernel' is below zero, where no bar ends; use the kind lines"),
    ],
)
def test_bars_that_cannot_be_drawn(evidence, fields, problem):
    rows = [*counts(kernel=[1, 2]), *counts("gain", kernel=[-1])]
    assert problem in fault(bars(subjects=["kernel"], **fields), evidence(rows))


# Curves


def curve(**fields):
    return block(**{"kind": "curve", "metric": "loss", "axis": None, **fields})


def test_a_curve_runs_along_linear_steps_without_dots(evidence):
    rows = [*training("kernel", 10, 6, 4), *training("peer", 10, 7, 5)]
    chart = the_chart(curve(), evidence(rows))
    assert not marks(chart, "wl-point")
    xs = [float(point.split(",")[0]) for point in lines(chart)[-1][1].get("points").split()]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
    assert "step" in [word for word, _, _ in words(chart)]


def test_a_loss_does_not_start_from_zero(evidence):
    chart = the_chart(curve(subjects=["kernel"]), evidence(training("kernel", 10, 9, 8)))
    ticks = [each.text for each in chart.iter(f"{SVG}text") if each.get("text-anchor") == "end"]
    assert "0" not in ticks
    assert "8" in ticks


def test_a_subject_of_one_step_is_a_dot_beside_the_curves_of_others(evidence):
    rows = [*training("kernel", 10, 6, 4), *training("peer", 10)]
    assert len(marks(the_chart(curve(), evidence(rows)), "wl-point")) == 1


def test_a_curve_of_one_step_is_a_fault(evidence):
    said = fault(curve(subjects=["kernel"]), evidence(training("kernel", 10)))
    assert "'kernel' has one point, which is no line; measure more of step" in said


def test_a_long_training_keeps_its_extremes_and_its_table_says_what_it_leaves_out(evidence):
    losses = [5 + (index == 777) * 4 for index in range(1500)]
    text = html(curve(subjects=["kernel"]), evidence(training("kernel", *losses)))
    (chart,) = charts(text)
    points = lines(chart)[0][1].get("points").split()
    assert len(points) < 700
    heights = [float(point.split(",")[1]) for point in points]
    assert max(heights) - min(heights) > 100
    assert "every 25 steps of 1500, all are in the record" in text
    assert text.count('<th scope="row">') == 61


# Several devices


def test_each_device_has_a_panel_and_all_share_the_axes(evidence):
    one = evidence([*timed(batch=1), *timed(batch=2)])
    slow = [measured("latency", "kernel", [1.0] * 6, batch=size) for size in (1, 8)]
    first, second = charts(html(block(subjects=["kernel"]), one, evidence(slow, gpu="B200")))
    assert first.get("viewBox") == second.get("viewBox")
    ticks = [[text for text, _, _ in words(each) if text[0].isdigit()] for each in (first, second)]
    assert ticks[0] == ticks[1]
    assert "8" in ticks[0]


@pytest.mark.parametrize(("many", "width"), [(2, 360), (3, 300), (4, 300)])
def test_several_panels_are_narrow_and_named(evidence, many, width):
    rows = [*timed(batch=1), *timed(batch=31)]
    text = html(block(), *[evidence(rows, gpu=f"GPU {number}") for number in range(many)])
    assert [each.get("viewBox").split()[2] for each in charts(text)] == [str(width)] * many
    assert text.count('<div class="wl-panel-name">GPU ') == many


def test_a_device_that_did_not_measure_it_has_no_panel(evidence, two):
    other = evidence([measured("rows", "kernel", [1], unit="rows", batch=1)])
    assert len(drawn(panels(block(), [two, other]))) == 1


def test_a_stale_record_is_not_drawn(evidence, two):
    old = evidence(timed(batch=1), changed={"kernel.py": Change.EDITED})
    assert len(drawn(panels(block(), [two, old]))) == 1
    assert "Not drawn on NVIDIA H200: the record is stale: kernel.py changed" in html(
        block(), two, old
    )
    assert "figure: cannot be drawn: the record is stale" in fault(block(), old)


KINDS = [
    block(),
    block(kind="ratios", metric="speedup", over="base"),
    block(kind="bars"),
    block(kind="curve", axis="batch"),
]


@pytest.mark.parametrize("asked", KINDS, ids=lambda each: each.kind)
@pytest.mark.parametrize("lost", ["kernel", "peer"])
@pytest.mark.parametrize("failed", [False, True])
def test_a_device_where_one_subject_has_no_point_keeps_the_others_and_names_it(
    evidence, asked, lost, failed
):
    rows = [*timed(batch=1), *timed(batch=31)]
    rows += [measured("latency", "base", [2e-5] * 6, batch=size) for size in (1, 31)]
    rest = [each for each in rows if each.subject != lost]
    if failed:
        rest += [measured("latency", lost, None, failed="differs", batch=size) for size in (1, 31)]
    text = html(asked, evidence(rows), evidence(rest, gpu="H100"))
    assert len(charts(text)) == 2
    said = "failed" if failed else "not measured"
    assert f'<th scope="row">{lost}</th>' in text
    assert f'<td colspan="3">{said}</td>' in text
    assert f"{lost}: {said}." in charts(text)[1].find(f"{SVG}desc").text
    caption = f"failed: {lost} at batch=1 (H100)" if failed else f"Not measured: {lost} (H100)"
    assert caption in text


def test_a_device_that_has_nothing_to_draw_is_named_with_the_reason(evidence, two):
    names = ("kernel", "peer")
    wrong = [measured("latency", name, None, failed="<b> differs", batch=1) for name in names]
    text = html(block(), two, evidence(wrong, gpu="H100"))
    assert "Not drawn on H100: &#x27;kernel&#x27; failed: &lt;b&gt; differs." in text


def test_a_subject_that_no_device_measured_is_a_fault(two):
    assert "the record has no latency of 'ghost'" in fault(block(subjects=["kernel", "ghost"]), two)


def test_a_failed_size_is_spelled_as_a_measured_one(evidence):
    rows = [measured("rows", "kernel", [1], unit="rows", size=2.0)]
    wrong = [measured("rows", "peer", None, unit="rows", failed="differs", size=2.0)]
    rows += [measured("rows", "peer", [1], unit="rows", size=4)]
    (panel,) = panels(bars(metric="rows"), [evidence([*rows, *wrong])])
    assert [each.label for each in panel.failed] == ["2"]
    assert panel.series[0].points[0].label == "2"


def test_devices_that_counted_in_different_units_cannot_share_an_axis(evidence):
    one, other = (evidence(counts("n", unit, kernel=[1]), gpu=unit) for unit in ("rows", "words"))
    said = fault(bars(metric="n", subjects=["kernel"]), one, other)
    assert "in rows on rows, in words on words" in said


# What is said


def test_a_chart_speaks_to_those_who_do_not_see_it(two):
    chart = the_chart(block(), two)
    assert chart.get("role") == "img"
    assert (
        chart.find(f"{SVG}title").text == chart.get("aria-label") == "It stays flat (NVIDIA H200)"
    )
    said = chart.find(f"{SVG}desc").text
    assert "latency by batch, both axes logarithmic." in said
    assert "kernel: from 10.0 µs at batch 1 to 10.0 µs at batch 31." in said
    assert "peer: from 120 µs at batch 1 to 120 µs at batch 31." in said


def test_an_extreme_between_the_ends_is_told(evidence):
    rows = [
        measured("latency", "kernel", [value] * 6, batch=size)
        for size, value in ((1, 2e-6), (2, 9e-6), (4, 1e-6), (8, 3e-6))
    ]
    text = html(block(subjects=["kernel"]), evidence(rows))
    assert "to 3 µs at batch 8, lowest 1 µs at batch 4, highest 9 µs at batch 2." in text


def test_the_table_holds_every_mark(two):
    text = html(block(), two)
    assert text.count('<th scope="row">') == 4
    assert "<td>batch=31</td><td>10.0 µs</td><td>9.90–10.1 µs</td><td>6</td>" in text


def test_what_all_rows_share_is_said_once_above_the_table(evidence):
    rows = [measured("latency", "kernel", [1e-5] * 6, k=8, batch=size) for size in (1, 2)]
    text = html(block(subjects=["kernel"]), evidence(rows))
    assert "<caption>latency with k=8</caption>" in text
    assert "<td>batch=1</td>" in text


def test_a_mark_shows_its_value_where_a_pointer_rests(two):
    dots = marks(the_chart(block(), two), "wl-point")
    assert dots[-1].find(f"{SVG}title").text == "kernel at batch 31: 10.0 µs (9.90–10.1 µs)"


def test_the_axes_say_what_they_are_and_in_which_unit(evidence):
    rows = [measured("latency", "kernel", [1e-5] * 6, row_bytes=size) for size in (1, 2)]
    chart = the_chart(block(axis="row_bytes", subjects=["kernel"]), evidence(rows))
    assert {"latency, µs", "row bytes"} <= {word for word, _, _ in words(chart)}


def test_a_chart_alone_is_drawn_in_two_widths_of_which_one_is_hidden_without_style(two):
    text = html(block(), two)
    wide, narrow = (the_chart(block(), two, name=name) for name in ("wl-wide", "wl-narrow"))
    assert text.count("<svg") == 2
    assert (wide.get("display"), narrow.get("display")) == (None, "none")
    assert wide.get("viewBox").split()[2] == "700"
    assert narrow.get("viewBox").split()[2] == "340"


def test_every_colour_is_a_class_and_an_attribute(two):
    for element in the_chart(block(), two).iter():
        if element.get("stroke", "none") != "none" or element.get("fill", "none") != "none":
            assert element.get("class"), ET.tostring(element)


# Text of any kind

HOSTILE = [
    '<script>alert("x")</script>',
    "'quotes\" & <b>",
    "x" * 10_000,
    "RTL \u202eoverride \u05e9\u05dc\u05d5\u05dd",
    "\x00\x1b[31m\x07\n\nlines",
    "\U0001f600" * 40,
    "a\u0301" * 60,
    " ",
]


@pytest.mark.parametrize("kind", ["lines", "ratios", "bars", "curve"])
def test_any_text_is_shown_as_text_inside_the_chart(evidence, kind):
    rows = [
        measured("latency", name, [1e-5 * (index + 1)] * 6, size=size)
        for index, name in enumerate([*HOSTILE, "base"])
        for size in (1, 2)
    ]
    asked = block(
        kind=kind,
        metric="speedup" if kind == "ratios" else "latency",
        over="base" if kind == "ratios" else None,
        axis="size",
        subjects=HOSTILE,
        title="<i>x</i>\x00",
        caption="<u>y</u>\u202e",
    )
    devices = [evidence(rows, gpu=name) for name in ("<b>GPU</b>", "G" * 10_000)]
    for given in (devices[:1], devices):
        text = html(asked, *given)
        assert not {"<script", "<b>", "<i>", "<u>"} & set(re.findall(r"<\w+>?", text))
        assert not set(text) & set("\x00\x07\x1b\u202e")
        for chart in charts(text, "wl-narrow"):
            width = float(chart.get("viewBox").split()[2])
            assert all(0 <= x <= width for _, x, _ in words(chart))


def test_a_long_name_is_shortened_in_the_chart_and_whole_in_its_title_and_the_table(evidence):
    name = "a name of which there are many like it, " * 20 + "except for its end"
    rows = [measured("latency", name, [1e-5] * 6, batch=size) for size in (1, 2)]
    text = html(block(subjects=[name]), evidence(rows))
    shown = [each for each in charts(text)[0].iter(f"{SVG}text") if "…" in (each.text or "")]
    assert shown[0].text.startswith("a name")
    assert shown[0].text.endswith("end")
    assert shown[0].find(f"{SVG}title").text == name
    assert f'<th scope="row">{name}</th>' in text


def test_names_of_many_series_stay_apart_and_inside_the_chart(evidence):
    names = [f"kernel {number}" for number in range(30)]
    rows = [measured("latency", name, [1e-5] * 6, batch=size) for name in names for size in (1, 2)]
    for name in ("wl-wide", "wl-narrow"):
        chart = the_chart(block(subjects=names), evidence(rows), name=name)
        height = float(chart.get("viewBox").split()[3])
        places = sorted(y for word, _, y in words(chart) if word.startswith("kernel"))
        assert len(places) == 30
        assert all(lower - upper >= 12 for upper, lower in pairwise(places))
        assert places[0] > 10
        assert places[-1] < height


def test_sizes_that_are_close_share_a_label_and_the_rounder_has_it(evidence):
    rows = [measured("latency", "kernel", [1e-5] * 6, length=n) for n in (1, 4096, 4097, 65536)]
    chart = the_chart(block(axis="length", subjects=["kernel"]), evidence(rows), name="wl-narrow")
    found = [word for word, _, _ in words(chart)]
    assert {"1", "4096", "65\u202f536"} <= set(found)
    assert "4097" not in found


# What cannot be drawn


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"subjects": ["ghost"]}, "no latency of 'ghost'"),
        ({"workload": {"batch": 1}}, "'kernel' has one point, which is no line"),
        ({"axis": "length"}, "no size 'length' to be the axis; use one of: batch"),
        ({"metric": "mismatches", "subjects": ["kernel"]}, "0 of 'kernel' has no place"),
    ],
)
def test_what_cannot_be_drawn_is_a_fault_at_the_block(two, fields, problem):
    assert problem in fault(block(**fields), two)


def test_no_record_at_all_is_a_fault():
    assert "there is no record" in fault(block())


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        (
            [{"batch": 1, "mode": "a"}, {"batch": 1, "mode": "b"}],
            "several workloads of 'kernel' have",
        ),
        ([{"batch": "small"}, {"batch": "large"}], "batch=small is no number"),
        ([{"batch": 0}, {"batch": 1}], "batch=0 has no place on a logarithmic axis"),
    ],
)
def test_sizes_that_are_no_axis(evidence, sizes, problem):
    rows = [measured("latency", "kernel", [1e-5] * 6, **size) for size in sizes]
    assert problem in fault(block(subjects=["kernel"]), evidence(rows))


def test_a_time_next_to_nothing_is_no_mark(evidence):
    rows = [measured("latency", "kernel", [5e-324] * 6, batch=size) for size in (1, 2)]
    said = fault(block(subjects=["kernel"]), evidence(rows))
    assert "has no place on a logarithmic axis" in said


def test_subjects_in_different_units_cannot_share_an_axis(evidence):
    rows = [*counts("n", "rows", kernel=[1, 2]), *counts("n", "words", peer=[1, 2])]
    said = fault(bars(metric="n"), evidence(rows))
    assert "'kernel' is in rows, 'peer' in words" in said


@pytest.mark.parametrize("value", [1e-299, 1e300])
@pytest.mark.parametrize("kind", ["lines", "bars", "curve"])
def test_a_number_of_any_size_has_a_place(evidence, kind, value):
    rows = [measured("n", "kernel", [value] * 6, unit="", size=size) for size in (1, 2)]
    asked = block(kind=kind, metric="n", axis="size", subjects=["kernel"])
    assert "nan" not in html(asked, evidence(rows))


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("kind: lines", "the key 'axis' is missing; add `axis: ...`"),
        ("kind: ratios\nscale: log", "scale: ratios are logarithmic; remove `scale:`"),
        ("kind: bars\nscale: linear", "scale: bars are linear from zero; remove `scale:`"),
        ("kind: bars\nbound: floor", "bound: bars have none; use the kind lines"),
        (
            "kind: lines\naxis: n\nbound: ceiling",
            "bound: latency has no ceiling; use the metric bandwidth",
        ),
    ],
)
def test_a_block_that_asks_for_what_its_kind_has_not_is_a_fault_at_its_line(lines, problem):
    text = f"metric: latency\nsubjects: [kernel]\ntitle: x\n{lines}\n"
    with pytest.raises(Fault, match=r"entries/x.md:1[0-9]: ") as caught:
        read_block("figure", Passage(text, "entries/x.md", 8))
    assert problem in str(caught.value)


# Golden figures: one of each kind


def golden_device(evidence, ceilings, gpu=None, factor=1.0):
    rows = []
    for batch in (1, 4, 16, 64):
        for name, seconds in (("kernel", 8e-6), ("peer", 4e-6 * (1 + batch)), ("base", 1.6e-5)):
            runs = [factor * seconds * share for share in SPREAD]
            rows.append(
                measured("latency", name, runs, traffic=2_000_000 * batch**0.25, batch=batch)
            )
        again = [factor * 1.62e-5 * share for share in SPREAD]
        rows.append(measured("latency_again", "base", again, batch=batch))
    rows += counts(kernel=[0, 0, 12], peer=[3, 0, 40])
    rows += [*training("kernel", 10, 6, 4, 3.3, 3), *training("peer", 10.5, 7, 5, 4, 3.5)]
    return evidence(rows, ceilings=ceilings, gpu=gpu)


@pytest.mark.parametrize(
    ("name", "fields", "many"),
    [
        ("lines", {"subjects": ["kernel", "peer", "base"], "bound": "floor", "caption": "Why."}, 1),
        ("bandwidth", {"metric": "bandwidth", "bound": "ceiling"}, 2),
        ("ratios", {"kind": "ratios", "metric": "speedup", "over": "base"}, 1),
        ("bars", {"kind": "bars", "metric": "mismatches", "axis": "size"}, 1),
        ("curve", {"kind": "curve", "metric": "loss", "axis": None}, 3),
    ],
)
def test_a_figure_is_drawn_as_it_was(evidence, ceilings, name, fields, many):
    gpus = [(None, 1.0), ("NVIDIA B200", 0.6), ("NVIDIA A100-SXM4-80GB", 1.9)][:many]
    devices = [golden_device(evidence, ceilings, gpu, factor) for gpu, factor in gpus]
    asked = block(**fields)
    drawn = draw(asked, panels(asked, devices), 1, '<a href="x.json">record</a>')
    text = re.sub(r"(</(?:g|tr|p|svg|div|title|desc|text|path)>|/>)", "\\1\n", drawn) + "\n"
    path = GOLDEN / f"figure-{name}.html"
    if os.environ.get("WARPLOG_GOLDEN") == "write":
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    assert text == path.read_text(encoding="utf-8")
