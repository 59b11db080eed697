"""What each way to gather is: the bytes of its instructions, its wrong elements, its time; and the
rule for the swizzle, tried on the host.
"""

from functools import partial

import kernel
import torch
from kernel import copy_rows
from reference import listed_rows
from shared import cutedsl_older as older

PLAIN = ("vector copy", "bulk copy")  # these leave rows as they are, not swizzled
ROW_BYTES = 1024
WIDE = 16  # bytes, the most that a thread can load at once


def units(run):
    """Count, on the host, the elements that are not read where each way to write a tile put them."""
    from swizzle import WRITERS, misplaced

    for writer in WRITERS:
        wrong = misplaced(writer)
        run.count("misplaced", wrong, unit="elements", subject=writer, experiment="host")


# region: gathers
def gathers(run):
    """Count the bytes of each way's instructions and its wrong elements; time those that are right."""
    from gather import WAYS
    from widths import of_older, widths

    known = {
        kernel.metadata.version(kernel.PACKAGE): {
            way: widths(kernel.code_of(way)[0]) for way in WAYS
        }
    }
    known[older.VERSION] = {} if run.tiny else of_older(WAYS)
    for version, found in known.items():
        for way, each in found.items():
            run.count("load_bytes", max(each), unit="B", subject=way, version=version)
    right, wide = [], 0
    table, rows = table_and_rows(run, run.seed)
    for way in WAYS:
        found = copy_rows(table, rows, way=way)
        wrong = int((found != listed_rows(table, rows)).sum())
        run.count("misplaced", wrong, unit="elements", subject=way, experiment="gather")
        right += [way] if not wrong else []
        wide += not wrong and way not in PLAIN and max(widths(kernel.code_of(way)[0])) == WIDE
    run.count("wide_ways", wide, unit="ways", subject="swizzled tile")
    run.compare(
        subjects={way: partial(copy_rows, way=way) for way in right},
        reference=listed_rows,
        inputs=lambda seed: table_and_rows(run, seed),
        exact=True,
        samples=9,
        traffic=traffic(rows),
        experiment="gather",
        rows=len(rows),
    )


# endregion


def traffic(rows):
    """Return the bytes that a gather must move: the list, each row once that it names, and the copies.

    How many rows are named varies by a part in a thousand from seed to seed; a hundredth is left off.
    """
    named = int(rows[rows >= 0].unique().numel() * 0.99)
    return (named + len(rows)) * ROW_BYTES + len(rows) * rows.element_size()


def table_and_rows(run, seed):
    """Draw a table, and a list of its rows in which every eighth place is padding."""
    count, size = run.sizes(full=[(2**17, 541_568)], tiny=[(64, 256)])[0]
    generator = torch.Generator(run.device).manual_seed(seed)
    options = {"device": run.device, "generator": generator}
    table = torch.randn((size, 512), dtype=torch.bfloat16, **options)
    rows = torch.randint(size, (count,), **options).int()
    rows[::8] = -1
    return table, rows
