"""Writes one panel of a figure as static SVG that stands on its own.

The rule kept here: a chart has a title and a description for those who do not see it, and no letter,
dot or line outside its own frame. Pure.
"""

from html import escape

from warplog import ink, plot, rows
from warplog.frame import Frame
from warplog.lettering import SIZE
from warplog.mark import Panel


def draw(panel: Panel, frame: Frame, width: int, says: tuple[str, str], *, name: str = "") -> str:
    """Return one panel as an `svg` element `width` wide; `says` is its title and its description.

    A chart called `wl-narrow` is shown only where the page's style asks for it.
    """
    if frame.size is not None:
        body, height = plot.draw(panel, frame, frame.size, width)
    else:
        body, height = rows.draw(panel, frame, width)
    title, description = (escape(words) for words in says)
    hidden = ' display="none"' if name == "wl-narrow" else ""
    return (
        f'<svg class="wl-chart{" " + name if name else ""}"{hidden} viewBox="0 0 {width} {height:.0f}" '
        f'role="img" aria-label="{title}" xmlns="http://www.w3.org/2000/svg" fill="{ink.INK}" '
        f'font-family="sans-serif" font-size="{SIZE:g}"><title>{title}</title>'
        f"<desc>{description}</desc>{body}</svg>"
    )
