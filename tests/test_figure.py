"""Charts and their tables: every mark is a spread, every text is escaped, the rest is a fault."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import msgspec
import pytest
from factory import H200, Lab, measured, record_of, timed
from hypothesis import example, given
from hypothesis import strategies as st

from warplog.block import FigureBlock
from warplog.evidence import Evidence
from warplog.fault import Fault
from warplog.figure import draw, panels
from warplog.record import Interval
from warplog.scale import Point, Series, apart, frame_of, linear_ticks, log_ticks, share, thinned

positive = st.floats(1e-12, 1e12)
SVG = "{http://www.w3.org/2000/svg}"


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


def evidence(artifact, measurements, changed=(), **fields):
    record = record_of(artifact, measurements, **fields)
    return Evidence(record, artifact.records / "cpu" / "x.json", changed, None)


def html(block_asked, *devices):
    return draw(block_asked, panels(block_asked, devices), 1, "")


def charts(text):
    """The SVG elements in a figure; parsing them proves that they are well formed."""
    found = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    return [ET.fromstring(each) for each in found]


@pytest.fixture
def two(artifact):
    """Two batches of two subjects."""
    return evidence(artifact, [*timed(batch=1), *timed(batch=31)])


def test_a_line_carries_the_spread_of_its_runs(two):
    (chart,) = charts(html(block(), two))
    assert len(chart.findall(f"{SVG}polygon")) == 2
    assert len(chart.findall(f"{SVG}polyline")) == 2
    band = chart.findall(f"{SVG}polygon")[-1].get("points").split()
    heights = [float(point.split(",")[1]) for point in band]
    assert heights[0] < heights[-1]


def test_a_size_at_which_a_subject_failed_is_said_and_the_rest_is_drawn(artifact):
    wrong = measured("latency", "kernel", None, failed="<b> differs", batch=7)
    device = evidence(artifact, [*timed(batch=1), *timed(batch=31), wrong])
    text = html(block(), device)
    assert "Not drawn, because it failed: kernel at batch=7 (NVIDIA H200)." in text
    assert len(charts(text)) == 1


def test_a_subject_that_failed_everywhere_cannot_be_drawn(artifact):
    wrong = [measured("latency", "kernel", None, failed="differs", batch=size) for size in (1, 2)]
    with pytest.raises(Fault, match="'kernel' failed: differs"):
        html(block(subjects=["kernel"]), evidence(artifact, wrong))


def test_our_kernel_is_drawn_last_and_thickest(two):
    (chart,) = charts(html(block(), two))
    widths = [float(line.get("stroke-width")) for line in chart.findall(f"{SVG}polyline")]
    assert widths[-1] == max(widths)
    assert chart.findall(f"{SVG}polyline")[-1].get("data-series") == "0"


def test_a_chart_speaks_to_those_who_do_not_see_it(two):
    (chart,) = charts(html(block(), two))
    assert chart.get("role") == "img"
    assert chart.find(f"{SVG}title").text == "It stays flat (NVIDIA H200)"
    assert "latency by batch" in chart.find(f"{SVG}desc").text


def test_the_table_holds_every_mark(two):
    text = html(block(), two)
    assert text.count("<tr><td>") == 4
    assert "<td>batch=31</td><td>10.0 µs</td><td>9.90–10.1 µs</td><td>6</td>" in text


def test_a_ratio_has_a_whisker_and_a_parity_line(two):
    asked = block(kind="ratios", metric="speedup", over="peer", subjects=["kernel"])
    (chart,) = charts(html(asked, two))
    parity = [line for line in chart.iter(f"{SVG}line") if line.get("class") == "wl-parity"]
    assert len(parity) == 1
    whiskers = [line for line in chart.iter(f"{SVG}line") if line.get("data-series")]
    assert len(whiskers) == 2
    assert all(float(one.get("x1")) < float(one.get("x2")) for one in whiskers)
    assert all(float(one.get("x1")) > float(parity[0].get("x1")) for one in whiskers)


def test_parity_is_shown_even_where_every_ratio_is_far_from_it():
    points = (Point(1.0, "b=1", 50.0, Interval(49, 51), 6, {"b": 1}),)
    frame = frame_of([(Series("kernel", points),)], "ratios", "log")
    assert frame.low <= 1
    assert frame.high >= 51


def test_text_from_a_record_is_escaped(artifact):
    name = '<script>alert("x")</script>'
    rows = [measured("latency", name, [1e-5] * 6, batch=size) for size in (1, 2)]
    environment = record_of(artifact, []).environment
    gpu = {**H200, "name": "<b>GPU</b>"}
    found = evidence(artifact, rows, environment=msgspec.structs.replace(environment, gpu=gpu))
    text = html(block(subjects=[name], title="<i>x</i>", caption="<u>y</u>"), found, found)
    assert not {"<script", "<b>", "<i>", "<u>"} & set(re.findall(r"<\w+>?", text))
    assert len(charts(text)) == 2


def test_each_device_has_a_panel_and_all_share_the_axis(artifact):
    one = evidence(artifact, [*timed(batch=1), *timed(batch=2)])
    slow = [measured("latency", "kernel", [1.0] * 6, batch=size) for size in (1, 2)]
    other = evidence(artifact, slow, device="cpu")
    asked = block(subjects=["kernel"])
    first, second = charts(html(asked, one, other))
    ticks = [text.text for text in first.iter(f"{SVG}text") if text.get("text-anchor") == "end"]
    again = [text.text for text in second.iter(f"{SVG}text") if text.get("text-anchor") == "end"]
    assert ticks == again


def test_a_device_that_did_not_measure_it_has_no_panel(artifact, two):
    other = evidence(artifact, [measured("rows", "kernel", [1], unit="rows", batch=1)])
    assert len(panels(block(), [two, other])) == 1


def test_a_stale_record_is_not_drawn(artifact, two):
    old = evidence(artifact, timed(batch=1), changed=("kernel.py",))
    assert len(panels(block(), [two, old])) == 1
    with pytest.raises(
        Fault, match=r"entries/x.md:7: figure: cannot be drawn: the record is stale"
    ):
        panels(block(), [old])


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"subjects": ["ghost"]}, "no latency of 'ghost'"),
        ({"workload": {"batch": 1}}, "has one point"),
        ({"axis": "length"}, "no size 'length' to be the axis; use one of: batch"),
        ({"metric": "mismatches", "subjects": ["kernel"]}, "0 of 'kernel' has no place"),
        (
            {"kind": "ratios", "metric": "mismatches", "subjects": ["kernel"], "scale": "linear"},
            "0 of 'kernel' has no place",
        ),
    ],
)
def test_what_cannot_be_drawn_is_a_fault_at_the_block(two, fields, problem):
    with pytest.raises(Fault) as caught:
        panels(block(**fields), [two])
    assert caught.value.place == "entries/x.md:7"
    assert problem in str(caught.value)


def test_no_record_at_all_is_a_fault():
    with pytest.raises(Fault, match="there is no record"):
        panels(block(), [])


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        ([{"batch": 1, "mode": "a"}, {"batch": 1, "mode": "b"}], "several workloads of 'kernel'"),
        ([{"batch": "small"}, {"batch": "large"}], "batch=small is no number"),
        ([{"batch": 0}, {"batch": 1}], "batch=0 has no place on a logarithmic axis"),
    ],
)
def test_sizes_that_are_no_axis(artifact, sizes, problem):
    rows = [measured("latency", "kernel", [1e-5] * 6, **size) for size in sizes]
    with pytest.raises(Fault, match=problem):
        panels(block(subjects=["kernel"]), [evidence(artifact, rows)])


def test_a_time_next_to_nothing_is_no_mark(artifact):
    rows = [measured("latency", "kernel", [5e-324] * 6, batch=size) for size in (1, 2)]
    with pytest.raises(Fault, match="has no place on a logarithmic axis"):
        panels(block(subjects=["kernel"]), [evidence(artifact, rows)])


def test_a_count_that_is_zero_is_drawn_on_a_linear_scale(two):
    asked = block(metric="mismatches", subjects=["kernel"], scale="linear")
    (chart,) = charts(html(asked, two))
    assert "linear scale" in chart.find(f"{SVG}desc").text


@given(positive, positive)
def test_logarithmic_ticks_enclose_every_value(one, two):
    low, high = min(one, two), max(one, two)
    ticks = log_ticks(low, high)
    assert ticks[0] <= low * (1 + 1e-6)
    assert ticks[-1] >= high * (1 - 1e-6)
    assert 2 <= len(ticks) <= 8
    assert ticks == sorted(set(ticks))


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
@example(0.0, 5e-324)
def test_linear_ticks_enclose_every_value_and_zero(one, two):
    low, high = min(one, two), max(one, two)
    ticks = linear_ticks(low, high)
    slack = 1e-6 * (high - low) + 1e-12
    assert ticks[0] <= min(low, 0) + slack
    assert ticks[-1] >= max(high, 0) - slack
    assert 2 <= len(ticks) <= 9


@given(st.lists(st.floats(10, 290), min_size=1, max_size=12))
def test_labels_are_pushed_apart_and_keep_their_order(wanted):
    placed = apart(wanted, 10, 290)
    pairs = sorted(zip(placed, wanted, strict=True))
    for (upper, first), (lower, second) in pairwise(pairs):
        assert lower - upper >= 14 - 1e-6
        assert first <= second
    if len(wanted) == 1:
        assert placed == wanted


def test_labels_that_would_touch_are_left_out_from_the_left():
    assert thinned([0, 5, 100], [20, 20, 20]) == [1, 2]
    assert thinned([], []) == []


@given(st.lists(st.tuples(st.floats(0, 600), st.floats(5, 60)), max_size=20))
def test_labels_that_are_kept_never_touch(labels):
    labels.sort()
    positions, widths = [place for place, _ in labels], [width for _, width in labels]
    kept = thinned(positions, widths)
    assert kept[-1:] == list(range(len(labels)))[-1:]
    for one, two in pairwise(kept):
        assert positions[one] + widths[one] / 2 < positions[two] - widths[two] / 2


def test_sizes_that_are_close_share_a_label(artifact):
    rows = [measured("latency", "kernel", [1e-5] * 6, length=size) for size in (1, 4096, 4097)]
    asked = block(axis="length", subjects=["kernel"])
    (chart,) = charts(html(asked, evidence(artifact, rows)))
    below = [each.text for each in chart.iter(f"{SVG}text") if each.get("text-anchor") == "middle"]
    assert below == ["1", "4097"]


def test_names_of_many_series_stay_inside_the_chart(artifact):
    names = [f"kernel {number}" for number in range(30)]
    rows = [measured("latency", name, [1e-5] * 6, batch=size) for name in names for size in (1, 2)]
    (chart,) = charts(html(block(subjects=names), evidence(artifact, rows)))
    heights = {each.text: float(each.get("y")) for each in chart.iter(f"{SVG}text")}
    assert max(heights[name] for name in names) < heights["1"]
    ordered = sorted(heights[name] for name in names)
    assert all(lower - upper >= 13 for upper, lower in pairwise(ordered))


def test_a_size_that_is_a_number_in_quotes_is_an_axis(artifact):
    rows = [measured("latency", "kernel", [1e-5] * 6, bits=size) for size in ("8", "16")]
    assert charts(html(block(axis="bits", subjects=["kernel"]), evidence(artifact, rows)))


def test_a_domain_of_one_value_has_a_middle():
    assert share(3, 3, 3, log=True) == 0.5
