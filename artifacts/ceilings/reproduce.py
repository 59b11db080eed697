"""Measure what this GPU can do: memory, rows by a list, the L2, launches, matrix products.

One GPU, some minutes. Without a GPU only what Triton and torch do on a CPU is checked.
"""

import rows
import streams
from launch_cost import launches
from power import watch_products
from products import matrix_products


def reproduce(run):
    """Measure every ceiling; the process that reads counters does nothing else."""
    rows.counters(run)
    if run.counting:
        return
    streams.read(run)
    streams.copy(run)
    rows.by_size(run)
    rows.by_table(run)
    rows.by_bytes_in_flight(run)
    rows.by_warps(run)
    rows.for_tokens(run)
    rows.after_writes(run)
    streams.read_l2(run)
    launches(run)
    matrix_products(run)
    watch_products(run)
