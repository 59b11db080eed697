"""What is special about topk-stable-sort: the two models, and the code of the kernels in their order."""

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

from warplog.profile import instructions

FOLDER = Path(__file__).parent.parent / "artifacts" / "topk-stable-sort"
BIG = 2.0**24  # The first float32 to which adding 1 changes nothing.

COMPILE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import kernel, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

def ptx(function, types, constants, aligned):
    names = list(function.arg_names)
    signature = {name: types.get(name, "constexpr") for name in names}
    given = {(names.index(name),): value for name, value in constants.items()}
    by16 = {(names.index(name),): [["tt.divisibility", 16]] for name in aligned}
    source = ASTSource(function, signature, given, by16)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]

rows = {"matrix": "*fp32", "out": "*fp32", "columns": "i32", "stride": "i32"}
ragged = {"matrices": "*fp32", "out": "*fp32", "lengths": "*i32", "shared": "*i32", "width": "i32"}
made = {
    f"height {height}": ptx(
        kernel._sum_rows, rows, {"ROWS": 64, "HEIGHT": height, "BLOCK": 128}, ["matrix", "out"]
    )
    for height in (1, 4)
}
constants = {"ROWS": 64, "HEIGHT": 4, "BLOCK": 512}
made["ragged"] = ptx(kernel._sum_ragged, ragged, constants, ragged)
loose = {"flat": "*fp32", "out": "*fp32", "starts": "*i64", "shared": "*i32", "width": "i32"}
made["loose"] = ptx(kernel._sum_where_they_lie, loose, constants, loose)
print(json.dumps(made))
"""

HUNT = """
import json, sys
import torch
sys.path.insert(0, sys.argv[1])
import ties

class Tiny:
    device, on_gpu, seed, found = torch.device("cpu"), False, 7, []
    def sizes(self, full, tiny):
        return list(tiny)
    def launches(self, call):
        return []
    def count(self, metric, value, *, unit, subject, **workload):
        self.found.append([metric, value, subject, workload])

run = Tiny()
for experiment in (ties.hunt, ties.definition, ties.network, ties.example, ties.paths):
    experiment(run)
print(json.dumps(run.found))
"""


def module(name):
    """One module of the artifact, under a name of its own: other artifacts have a kernel too."""
    spec = importlib.util.spec_from_file_location(f"topk_stable_sort_{name}", FOLDER / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def model():
    return module("model")


@pytest.fixture(scope="module")
def kernel():
    return module("kernel")


@pytest.fixture(scope="module")
def draws():
    return module("draws")


@pytest.fixture(scope="module")
def ptx(tmp_path_factory):
    """The kernels as Triton compiles them for an H200; a process of its own, without interpreter."""
    cache = str(tmp_path_factory.mktemp("triton"))
    words = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, str(FOLDER)],
        env=words | {"TRITON_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def column(*rows):
    return torch.tensor(rows, dtype=torch.float32)[:, None]


def test_one_lane_keeps_four_sums_and_adds_them_from_left_to_right(model):
    """Rows 1 and 5 meet before the big one swallows them; row 4 does not."""
    matrix = column(BIG, 1, 0, 0, 1, 1, 0, 0)
    assert model.ordered_sum(matrix, 1).item() == BIG + 2


def test_four_lanes_meet_by_halves(model):
    """Lanes 0 and 2 meet first, then 1 and 3: neighbours would have saved the two ones."""
    matrix = column(BIG, 0, 1, 1, *[0] * 12)
    assert model.ordered_sum(matrix, 4).item() == BIG
    assert model.ordered_sum(column(BIG, 1, 0, 1, *[0] * 12), 4).item() == BIG + 2


def test_a_row_past_the_last_changes_nothing(model):
    """37 rows fill neither four sums nor four lanes."""
    matrix = torch.arange(74, dtype=torch.float32).view(37, 2)
    for height in (1, 4):
        assert torch.equal(model.ordered_sum(matrix, height), matrix.sum(0))


@pytest.mark.parametrize(
    ("columns", "options", "vector", "block", "height"),
    [
        (4096, {}, 4, (32, 4), 4),
        (128, {}, 4, (32, 4), 4),
        (124, {}, 4, (16, 8), 1),
        (130, {}, 2, (32, 8), 1),
        (127, {}, 1, (32, 16), 1),
        (1, {}, 1, (64, 1), 64),
        (4096, {"stride": 4097}, 1, (32, 16), 1),
        (4096, {"stride": 4100}, 4, (32, 4), 4),
        (4096, {"offset": 1}, 1, (32, 16), 1),
        (124, {"batch": 31}, 4, (32, 4), 4),
    ],
)
def test_only_four_columns_a_load_let_four_lanes_share_a_column(
    model, columns, options, vector, block, height
):
    found = model.reduction(64, columns, **options)
    assert (found.vector, found.block, found.height) == (vector, block, height)


def test_the_network_puts_the_second_of_two_equal_scores_first(model):
    """Seen on a GPU: torch.topk([3, 2, 3, 2, 1, 1], 2) says [2, 0]; a stable sort says [0, 2]."""
    scores = torch.tensor([[3.0, 2, 3, 2, 1, 1]])
    assert model.bitonic_topk(scores, 2).tolist() == [[2, 0]]


def test_the_network_sorts_what_has_no_ties(model, draws):
    scores = draws.distinct([100, 100], 1, torch.device("cpu")).view(2, 100)
    for k in (2, 7, 32):
        assert torch.equal(model.bitonic_topk(scores, k), torch.topk(scores, k).indices)


@pytest.mark.parametrize(("width", "height"), [(127, 1), (130, 1), (128, 4), (260, 4)])
def test_the_kernel_adds_in_the_order_of_the_model(model, kernel, width, height):
    """Every bit; in the other order some bit differs, so the comparison sees an order."""
    matrix = torch.randn(64, width, generator=torch.Generator().manual_seed(width))
    assert torch.equal(kernel.sum_rows(matrix, height), model.ordered_sum(matrix, height))
    assert not torch.equal(kernel.sum_rows(matrix, height), model.ordered_sum(matrix, 5 - height))


def test_one_launch_gives_each_item_its_own_order(model, kernel):
    """Two orders side by side, and -inf past the end of each item."""
    matrices = torch.randn(2, 64, 132, generator=torch.Generator().manual_seed(3))
    lengths, shared = torch.tensor([[132, 99], [1, 0]], dtype=torch.int32)
    found = kernel.sum_ragged(matrices, lengths, shared)
    assert torch.equal(found[0], model.ordered_sum(matrices[0], 4))
    assert torch.equal(found[1, :99], model.ordered_sum(matrices[1, :, :99], 1))
    assert (found[1, 99:] == -torch.inf).all()


def test_items_are_summed_where_they_lie(model, kernel):
    """The same bits as from the padded batch, each item at its own start and row stride."""
    lengths, heights = (132, 1, 99, 128, 8), (4, 1, 1, 4, 1)
    draw = torch.Generator().manual_seed(4)
    items = [torch.randn(64, n, generator=draw) for n in lengths]
    flat = torch.cat([item.flatten() for item in items])
    starts = torch.tensor([0, *lengths]).cumsum(0)
    shared = torch.tensor([height > 1 for height in heights]).int()
    found = kernel.sum_where_they_lie(flat, starts, shared, 132, 64)
    for row, item, n, height in zip(found, items, lengths, heights, strict=True):
        assert torch.equal(row[:n], model.ordered_sum(item, height))
        assert (row[n:] == -torch.inf).all()


def test_both_ways_of_padding_agree(kernel):
    rows = [torch.arange(5.0), torch.arange(3.0)]
    starts = torch.tensor([0, 5, 8])
    copied = kernel.pad_by_copies(rows, 6)
    assert torch.equal(kernel.pad_by_kernel(torch.cat(rows), starts, 6), copied)
    assert copied[1].tolist() == [0, 1, 2, -torch.inf, -torch.inf, -torch.inf]


def test_two_sums_need_a_width_of_four(kernel):
    shared = torch.tensor([1, 0], dtype=torch.int32)
    with pytest.raises(ValueError, match="multiple of 4, not 5"):
        kernel.sum_twice(torch.ones(2, 64, 5), shared)
    assert kernel.sum_twice(torch.ones(2, 64, 8), shared).tolist() == [[64.0] * 8, [64.0] * 7 + [0]]


def test_cleaning_leaves_one_zero_and_one_nan(kernel):
    bits = torch.tensor([0, -(2**31), 0x7FC00001, -0x400000, 0x3F800000], dtype=torch.int32)
    found = kernel.cleaned(bits.view(torch.float32)).view(torch.int32).tolist()
    assert found == [0, 0, 0x7FC00000, 0x7FC00000, 0x3F800000]


def test_the_reference_ranks_as_the_sort_of_a_cpu_does(draws):
    """NaN of any bits first and equal, zeros equal, ties by index: for every kind of tie."""
    reference = module("reference")
    for kind in draws.TIES:
        scores = draws.draw(kind, (2, 1000), torch.float32, 6, torch.device("cpu"))
        ranked = torch.sort(scores, descending=True, stable=True).indices
        assert torch.equal(reference.top_indices(scores, 700), ranked[:, :700]), kind


def test_every_kind_has_the_ties_that_it_is_named_for(draws):
    """Scores of kind none are all distinct in a row, in every type; of all other kinds, some tie."""
    for kind in draws.TIES:
        for dtype in draws.dtypes_of(kind):
            scores = draws.draw(kind, (2, 1000), dtype, 5, torch.device("cpu"))
            assert scores.dtype == dtype
            clean = torch.where(scores.isnan(), torch.inf, scores.double())
            tied = [row.unique().numel() < row.numel() for row in clean]
            assert all(tied) == (kind != "none"), (kind, dtype)


def test_the_hunt_counts_what_it_tested_and_finds_nothing_where_nothing_ties():
    """On a CPU: whose ties fall otherwise than a GPU's, but distinct scores have one order only."""
    done = subprocess.run(
        [sys.executable, "-c", HUNT, str(FOLDER)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    distinct = [each for each in found if each[3].get("ties") == "none"]
    rows = [value for metric, value, _, _ in distinct if metric == "tested"]
    assert rows == [16, 48, 16]  # Four types, rows 1 + 3, and one, three or one k.
    assert {value for metric, value, _, _ in distinct if metric.endswith("mismatches")} == {0}
    zeros = [each for each in found if each[3].get("ties") == "both-zeros"]
    rates = {value for metric, value, _, _ in distinct if metric.startswith("differing")}
    assert rates == {0}
    assert {subject for _, _, subject, _ in zeros} == {
        "top-k",
        "stable sort",
        "top-k, cleaned",
        "top-k of 33, cleaned",
    }
    sort = [each[1] for each in zeros if each[2] == "stable sort"]
    assert sort == [0]


def test_an_addition_is_an_addition(ptx):
    """No multiply-add, no addition left out: every thread adds what the order says, plus the zeros.

    One lane: a loop of four trips with 16 rows each, then 3. Four lanes: all 64 rows of one column a
    thread, 3 additions for each lane, 3 between them.
    """
    for text in ptx.values():
        assert instructions(text, "fma") == 0
    assert instructions(ptx["height 1"], "add.f32") == 16 + 3
    assert instructions(ptx["height 4"], "add.f32") == 64 + 4 * 3 + 3


def test_the_ragged_kernel_loads_sixteen_bytes_at_a_time(ptx):
    """The four lanes' 64 loads and, in a loop of four trips, the one lane's 16; and two scalars."""
    wide = instructions(ptx["ragged"], "ld.global.v4.b32")
    narrow = instructions(ptx["ragged"], "ld.global.b32")
    assert Counter(wide=wide, narrow=narrow) == {"wide": 64 + 16, "narrow": 2}


def test_items_in_place_are_read_sixteen_bytes_at_a_time_where_rows_are_aligned(ptx):
    """The four lanes' 64 loads; the one lane's loop may start anywhere, so its columns go singly."""
    assert instructions(ptx["loose"], "ld.global.v4.b32") == 64
    assert instructions(ptx["loose"], "ld.global.v2.b32") == 0
