"""A figure from measurements: its charts, its caption, its data. Pure: a block and its evidence in, HTML out.

The rule kept here: what is drawn is also written as a table, each mark is the spread of its runs and not
their middle alone, and what cannot be drawn is a fault at the block's line. One panel a
device, and a device without one is named.
"""

from collections.abc import Iterable, Sequence
from html import escape

from warplog import chart
from warplog.block import FigureBlock
from warplog.datatable import table_of
from warplog.description import (
    description_of,
    failures_of,
    key_of,
    missing_of,
    title_of,
    unbounded_of,
)
from warplog.evidence import Evidence
from warplog.fault import Fault
from warplog.frame import Frame, frame_of, metric_words
from warplog.lettering import clean, shortened
from warplog.mark import Panel
from warplog.panel import panel_of
from warplog.reading import Unmeasured

_WIDE, _NARROW, _HALF, _THIRD = 700, 340, 360, 300
_NAME_ROOM = 480.0


def panels(block: FigureBlock, devices: Iterable[Evidence]) -> list[Panel]:
    """Return a panel for each device, in their order: one without fresh numbers is not drawn, and its
    panel says why. Raise Fault where none can be drawn, or where a subject is on none.
    """
    found = [_tried(block, evidence) for evidence in devices]
    shown = drawn(found)
    why = found[0].missing if found else "there is no record"
    if shown:
        columns = zip(*(panel.series for panel in shown), strict=True)
        why = next((each[0].missing for each in columns if all(one.missing for one in each)), "")
    if why:
        remedy = "change the block, or reproduce again with --publish"
        raise Fault(block.place, f"figure: cannot be drawn: {why}", remedy)
    _refuse_apart(block, shown)
    return found


def drawn(found: Iterable[Panel]) -> list[Panel]:
    """Return the panels that are drawn."""
    return [panel for panel in found if not panel.missing]


def _tried(block: FigureBlock, evidence: Evidence) -> Panel:
    """Return the panel of a device, or one that says why there is none."""
    if not evidence.fresh:
        return Panel(evidence.name, missing=evidence.stale_reason)
    try:
        return panel_of(block, evidence)
    except Unmeasured as reason:
        return Panel(evidence.name, missing=str(reason))


def _refuse_apart(block: FigureBlock, found: Sequence[Panel]) -> None:
    """Raise Fault where the panels cannot share an axis, or where no device has the bound."""
    other = next((panel for panel in found if panel.unit != found[0].unit), None)
    if other is not None:
        problem = (
            f"figure: in {found[0].unit} on {found[0].device}, in {other.unit} on {other.device}"
        )
        raise Fault(block.place, problem, "reproduce again with --publish on both")
    bounds = [panel.bound for panel in found if panel.bound is not None]
    if bounds and not any(bound.points for bound in bounds):
        problem = f"figure: no {block.bound}: {bounds[0].missing}"
        remedy = "reproduce the artifact ceilings on it with --publish, or remove `bound:`"
        raise Fault(block.place, problem, remedy)


def draw(block: FigureBlock, found: list[Panel], number: int, source: str) -> str:
    """Return the figure as HTML: a chart a panel, the caption, the table of its data.

    `number` counts the figures of a page; `source` is HTML that links the records.
    """
    shown = drawn(found)
    frame = frame_of(block, shown)
    drawings = "".join(_panel(block, panel, frame, len(shown)) for panel in shown)
    return (
        f'<figure class="wl-figure" id="figure-{number}" data-search-exclude>'
        f'<div class="wl-panels wl-panels-{min(len(shown), 3)}">{drawings}</div>'
        f"<figcaption><p>{_caption(block, found, number)} {source}</p>"
        f'<details class="wl-more"><summary>The data of figure {number}</summary>'
        f"{table_of(shown, frame, metric_words(block), number)}</details></figcaption></figure>"
    )


def _panel(block: FigureBlock, panel: Panel, frame: Frame, many: int) -> str:
    """Return the chart of one device: alone in two widths, of which a page shows the one that fits."""
    says = title_of(block, panel), description_of(block, panel, frame)
    if many == 1:
        wide = chart.draw(panel, frame, _WIDE, says, name="wl-wide")
        narrow = chart.draw(panel, frame, _NARROW, says, name="wl-narrow")
        return f'<div class="wl-panel">{wide}{narrow}</div>'
    short = shortened(panel.device, _NAME_ROOM)
    full = clean(panel.device)
    title = f' title="{escape(full)}"' if short != full else ""
    width = _HALF if many == 2 else _THIRD  # noqa: PLR2004
    return (
        f'<div class="wl-panel"><div class="wl-panel-name"{title}>{escape(short)}</div>'
        f"{chart.draw(panel, frame, width, says)}</div>"
    )


def _caption(block: FigureBlock, found: Sequence[Panel], number: int) -> str:
    """Return the title, the author's caption, how to read the marks, and what is not drawn and why."""
    title = escape(clean(block.title).rstrip("."))
    parts = [f"<strong>Figure {number}.</strong> <bdi>{title}</bdi>."]
    if block.caption.strip():
        parts.append(f"<bdi>{escape(clean(block.caption))}</bdi>")
    failed = failures_of(found)
    if failed:
        parts.append(f"Not drawn, because it failed: {escape('; '.join(failed))}.")
    parts += [f"{escape(each)}." for each in (*missing_of(found), *unbounded_of(found))]
    parts.append(f'<span class="wl-key">{escape(key_of(block, found))}</span>')
    return " ".join(parts)
