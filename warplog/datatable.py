"""The data of a figure as an HTML table: every mark that the chart shows, and every one it could not.

The rule kept here: what all rows share is said once, above them; a long training is shown in even steps
and says so. Pure.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from html import escape

from warplog.description import written_html
from warplog.frame import Frame
from warplog.lettering import clean
from warplog.mark import Panel
from warplog.record import Scalar, Workload
from warplog.workload import spell

_ROWS_AT_MOST = 60


def table_of(panels: Sequence[Panel], frame: Frame, metric: str, number: int) -> str:
    """Return the table of figure `number`; `metric` says in words what its numbers are."""
    shared = _shared(panels)
    several = len(panels) > 1
    heads = ["GPU"] if several else []
    heads += ["Subject", "Workload", "Median run", "All runs", "Runs"]
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    body = "".join(row for panel in panels for row in _rows(panel, frame, shared, several=several))
    longest = max(len(each.points) for panel in panels for each in panel.series)
    said = clean(metric) + (f" with {clean(spell(shared))}" if shared else "")
    every = _every(longest)
    said += f"; every {every} steps of {longest}, all are in the record" if every > 1 else ""
    return (
        f'<div class="wl-scroll" tabindex="0" role="region" aria-label="The data of figure {number}">'
        f'<table class="wl-table wl-data"><caption>{escape(said)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _shared(panels: Sequence[Panel]) -> Workload:
    """Return the sizes that every mark has alike."""
    workloads = [
        workload
        for panel in panels
        for workload in (
            *(point.workload for each in panel.series for point in each.points),
            *(each.workload for each in panel.failed),
        )
    ]
    if len(workloads) == 1:
        return {}
    first, *rest = workloads
    return {
        name: value
        for name, value in first.items()
        if all(name in each and each[name] == value for each in rest)
    }


def _every(many: int) -> int:
    return -(-many // _ROWS_AT_MOST)


def _rows(panel: Panel, frame: Frame, shared: Workload, *, several: bool) -> Iterator[str]:
    """Yield the rows of one device: each subject, what failed, and the bound."""
    opened = f"<tr><td>{escape(clean(panel.device))}</td>" if several else "<tr>"
    for each in panel.series:
        subject = f'{opened}<th scope="row">{escape(clean(each.subject))}</th>'
        if each.missing:
            yield f'{subject}<td>–</td><td colspan="3">not measured</td></tr>'
        every = _every(len(each.points)) or 1
        for point in (*each.points[:-1:every], *each.points[-1:]):
            middle, spread = written_html(point, frame.unit)
            yield (
                f"{subject}<td>{_workload(point.workload, shared)}</td><td>{middle}</td>"
                f"<td>{spread}</td><td>{point.runs}</td></tr>"
            )
    for failure in panel.failed:
        subject = f'{opened}<th scope="row">{escape(clean(failure.subject))}</th>'
        workload = _workload(failure.workload, shared)
        yield f'{subject}<td>{workload}</td><td colspan="3">failed</td></tr>'
    if panel.bound is not None:
        subject = f'{opened}<th scope="row"><em>{panel.bound.name}</em></th>'
        for point in panel.bound.points:
            value, _ = written_html(point, frame.unit)
            workload = _workload(point.workload, shared)
            yield f"{subject}<td>{workload}</td><td>{value}</td><td></td><td></td></tr>"


def _workload(workload: Workload, shared: Workload) -> str:
    """Return the sizes that the other rows do not share, as HTML."""
    rest = tuple(item for item in workload.items() if item[0] not in shared)
    return _spelled(rest) if rest else "–"


@lru_cache(maxsize=1024)
def _spelled(sizes: tuple[tuple[str, Scalar], ...]) -> str:
    return escape(clean(spell(dict(sizes))))
