"""Whole tables in their order: read, copied, and read again and again out of the L2."""

from functools import partial

import torch
from kernel import triton_gather
from plans import COPY, READ, READ_L2, READ_LONG
from reference import table_sums
from tables import cuda, words

SAMPLES = 11
STREAM_BYTES = 2**31
LONG_ROW = 16384


def read(run):
    """Read 2 GiB, far more than the L2 holds: each row into its sum."""
    size = run.sizes(full=[STREAM_BYTES], tiny=[2**16])[0]
    subjects = {
        4096: {
            "triton": partial(triton_gather, block=1),
            "torch sum": lambda table: table.sum(dim=1, dtype=torch.int32),
            **cuda(run, READ),
        },
        LONG_ROW: {"triton": partial(triton_gather, block=1), **cuda(run, READ_LONG)},
    }
    for row_bytes, chosen in subjects.items():
        run.compare(
            subjects=chosen,
            reference=table_sums,
            inputs=lambda seed, row=row_bytes: words(run, seed, size // row, row // 4),
            exact=True,
            traffic=size,
            samples=SAMPLES,
            operation="read",
            row_bytes=row_bytes,
            bytes=size,
        )


def copy(run):
    """Copy 2 GiB to another place; the traffic counts the bytes read and the bytes written."""
    size = run.sizes(full=[STREAM_BYTES], tiny=[2**16])[0]
    run.compare(
        subjects={
            "torch copy_": lambda table: torch.empty_like(table).copy_(table),
            "triton": partial(triton_gather, block=1, warps=8, copy=True),
            **cuda(run, COPY, copy=True),
        },
        reference=torch.clone,
        inputs=lambda seed: words(run, seed, size // 4096, 1024),
        exact=True,
        traffic=2 * size,
        samples=SAMPLES,
        operation="copy",
        row_bytes=4096,
        bytes=size,
    )


def read_l2(run):
    """Read a small buffer many times within one launch: 2 GiB out of a few MiB."""
    for mebibytes in run.sizes(full=[4, 8, 16, 24, 32, 48, 64, 128], tiny=[]):
        rows, times = mebibytes * 256, 2048 // mebibytes
        run.compare(
            subjects=cuda(run, READ_L2, entries=rows * times),
            reference=lambda table, times=times: table_sums(table).repeat(times),
            inputs=lambda seed, rows=rows: words(run, seed, rows, 1024),
            exact=True,
            cache="warm",
            traffic=rows * times * 4096,
            samples=9,
            operation="l2-read",
            mebibytes=mebibytes,
        )
