"""sorted-indices: the loop that ends at the last row, the orders, and what a capture remembers."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from borrowed import modules_of

from warplog.measure import poisoned

FOLDER = Path(__file__).parents[1] / "artifacts" / "sorted-indices"

COMPILE = """
import json, sys
sys.path[:0] = sys.argv[1:]
import kernel, triton
from shared import splitk
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

types = dict.fromkeys(("q_nope", "q_pe", "ckv", "kpe", "output"), "*bf16")
types |= {"indices": "*i32", "arrived": "*i32", "scale": "fp32"}
types |= dict.fromkeys(("partial", "partial_lse", "lse"), "*fp32")
shapes = dict(WIDTH=2048, SPLITS=8, BLOCK=64, STAGES=3, HEADS=16, CKV=512, KPE=64)

def ptx(function, **more):
    names = list(function.arg_names)
    signature = {name: types.get(name, "constexpr") for name in names}
    given = {(names.index(name),): value for name, value in (shapes | more).items()}
    by16 = {(names.index(n),): [["tt.divisibility", 16]] for n in names if n in types and n != "scale"}
    source = ASTSource(function, signature, given, by16)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]

whole = ptx(splitk._split, OPERAND=splitk.OPERAND, MASKS=True, LAST=False, STOP=3)
short = ptx(kernel._split, OPERAND=splitk.OPERAND, INTERPRETED=False)
print(json.dumps({"whole": whole, "short": short}))
"""


@pytest.fixture(scope="module")
def artifact():
    """The artifact's modules, taken away afterwards: others are called kernel, too."""
    with modules_of(FOLDER.name) as load:
        yield load


@pytest.fixture(scope="module")
def ptx(tmp_path_factory):
    """The study kernel and ours as Triton compiles them for an H200; in a process of its own."""
    cache = str(tmp_path_factory.mktemp("triton"))
    words = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, str(FOLDER), str(FOLDER.parent)],
        env=words | {"TRITON_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def edges():
    """One token for each edge of a list of 64 places that two splits of two blocks share."""
    rows = torch.full((5, 64), -1, dtype=torch.int32)
    rows[1, 0] = 2559  # one row, the last of the cache
    rows[2, :40] = torch.arange(100, 140)  # padding last, and the second split half full
    rows[3, -5:] = 7  # padding first, duplicates
    rows[4] = torch.randperm(2560, generator=torch.Generator().manual_seed(1))[:64]
    rows[4, ::3] = -1  # interleaved
    return rows


def test_a_loop_to_the_last_row_is_right_on_every_edge(artifact):
    """Memory that a split leaves unwritten is NaN, so that reading it shows."""
    kernel, dsa = artifact("kernel"), artifact("shared.dsa")
    problem = dsa.problem(edges(), seed=5, pages=40)
    with poisoned():
        output, lse = kernel.attend_to_last_row(*problem, plan=kernel.Plan(block=16, splits=2))
    expected, sums = dsa.reference(*problem)
    assert dsa.wrong_elements(output, expected) == 0
    assert dsa.wrong_elements(lse, sums) == 0


def test_a_single_split_is_refused(artifact):
    kernel, dsa = artifact("kernel"), artifact("shared.dsa")
    problem = dsa.problem(edges(), seed=5, pages=40)
    with pytest.raises(ValueError, match="splits=1: use 2 or more"):
        kernel.attend_to_last_row(*problem, plan=kernel.Plan(block=16, splits=1))


def test_a_scale_that_is_no_number_is_refused(artifact):
    kernel, dsa = artifact("kernel"), artifact("shared.dsa")
    problem = dsa.problem(edges(), seed=5, pages=40)._replace(sm_scale=None)
    with pytest.raises(ValueError, match="sm_scale is None: pass a finite int or float"):
        kernel.attend_to_last_row(*problem, plan=kernel.Plan(block=16, splits=2))


def test_a_loop_to_the_last_row_loads_as_the_study_kernel_does(ptx):
    """So that a difference in time is the loop's end and nothing else."""
    for opcode in ("cp.async.cg.shared", "cp.async.wait_group"):
        assert ptx["short"].count(opcode) == ptx["whole"].count(opcode) > 0


def test_every_order_holds_the_same_rows(artifact):
    orders, lists = artifact("orders"), artifact("shared.dsa_lists")
    drawn = orders.inputs_of(lists.Lists(edges()), seed=2, pages=40)
    given, first, last = (indices.sort(dim=1).values for indices in drawn[4:7])
    assert torch.equal(given, first)
    assert torch.equal(given, last)
    assert drawn[5][2, :24].max() == -1
    assert drawn[6][2, 40:].max() == -1


@pytest.mark.parametrize(
    ("subject", "seen"), [("as given", 4), ("sorted", 5), ("sorted, padding last", 6)]
)
def test_a_way_attends_to_the_list_of_its_order(artifact, monkeypatch, subject, seen):
    orders = artifact("orders")
    monkeypatch.setattr(orders, "splitk", lambda *problem, plan: problem[4])  # noqa: ARG005
    ways = orders.subjects_of("plan", padded=True, graphs=False)
    inputs = [torch.full((1, 2), number) for number in range(7)]
    assert torch.equal(ways[subject](*inputs, 1.0), inputs[seen])


def test_sorting_in_the_call_sorts_the_list_that_is_given(artifact, monkeypatch):
    orders = artifact("orders")
    monkeypatch.setattr(orders, "splitk", lambda *problem, plan: problem[4])  # noqa: ARG005
    ways = orders.subjects_of("plan", padded=False, graphs=False)
    inputs = [torch.zeros(1, 3)] * 4 + [torch.tensor([[5, -1, 3]]), None, None]
    assert ways["sorted in the call"](*inputs, 1.0).tolist() == [[-1, 3, 5]]


def test_full_lists_have_no_subjects_that_move_padding(artifact):
    ways = artifact("orders").subjects_of("plan", padded=False, graphs=False)
    assert list(ways) == ["as given", "sorted", "sorted in the call"]


def test_a_graph_is_captured_once_for_each_set_of_addresses(artifact, monkeypatch):
    captured, replayed = artifact("captured"), []

    def capture(call, inputs):
        graph = SimpleNamespace(replay=lambda: replayed.append(inputs[0].data_ptr()))
        return graph, call(*inputs)

    monkeypatch.setattr(captured, "capture", capture)
    calls = []
    again = captured.Captured(lambda *inputs: calls.append(inputs) or (inputs[0],))
    one, two = torch.zeros(2), torch.zeros(2)
    for tensor in (one, one, two, one):
        again(tensor, 1.0)
    assert len(calls) == 2
    assert replayed == [tensor.data_ptr() for tensor in (one, one, two, one)]


def test_another_number_or_shape_at_the_same_address_is_another_graph(artifact):
    identity = artifact("captured").identity
    tensor = torch.zeros(4)
    assert identity(tensor) == identity(tensor.detach())
    assert identity(tensor) != identity(tensor[:2])
    assert identity(tensor) != identity(tensor.view(torch.int32))
    assert identity(1.0) != identity(2.0)


def test_imbalance_is_one_for_equal_shares_and_the_splits_for_a_single_one(artifact):
    imbalance = artifact("orders").imbalance
    full = torch.zeros(1, 8, dtype=torch.int32)
    first = torch.tensor([[1, 2] + [-1] * 6])
    assert imbalance(full, 4) == 1.0
    assert imbalance(first, 4) == 4.0
    assert imbalance(torch.cat([full, first]), 4) == 2.5


def test_lists_without_rows_have_no_imbalance(artifact):
    imbalance = artifact("orders").imbalance
    assert imbalance(torch.full((2, 8), -1), 4) == 1.0
    assert imbalance(torch.tensor([[-1] * 8, [1, 2] + [-1] * 6]), 4) == 4.0


def test_sorting_a_public_list_moves_its_padding_and_not_its_imbalance(artifact):
    """All rows of a short list stand in one split before, and in another one after."""
    imbalance, lists = artifact("orders").imbalance, artifact("shared.dsa_lists")
    given = lists.contest(0, 3)
    after = lists.sorted_pads_first(given).indices
    assert imbalance(given.indices, 8) == imbalance(after, 8) == 8.0


def test_only_public_lists_of_2048_rows_change_when_sorted(artifact):
    reproduce, found = artifact("reproduce"), {}
    full = {"rows": 64 * 8462, "width": 2048, "device": "cpu"}
    run = SimpleNamespace(seed=3, count=lambda metric, value, **_: found.update({metric: value}))
    original, reproduce.sizes_of = reproduce.sizes_of, lambda _: full
    try:
        reproduce.public_lists(run)
    finally:
        reproduce.sizes_of = original
    counts = [count for counts in artifact("shared.dsa_lists").CONTEST for count in counts]
    assert found == {"lists": len(counts), "lists_changed": counts.count(2048)}


@pytest.mark.parametrize("resorts", [True, False])
def test_a_graph_that_sorted_before_its_capture_has_every_token_wrong(
    artifact, monkeypatch, resorts
):
    """With a stand-in for the graph that remembers its list, or looks at the address again."""
    reproduce, dsa = artifact("reproduce"), artifact("shared.dsa")
    found = {}

    def capture(call, inputs):
        output = torch.empty(inputs.q_nope.shape, dtype=torch.float64)
        graph = SimpleNamespace(replay=lambda: output.copy_(dsa.reference(*inputs)[0]))
        return graph, (output, call)

    def count(metric, value, *, unit, subject, tokens):
        assert (metric, unit, tokens) == ("wrong_tokens", "tokens", 2)
        found[subject] = value

    small = {"rows": 64 * 40, "width": 64, "device": "cpu"}
    monkeypatch.setattr(reproduce, "sizes_of", lambda _: small)
    monkeypatch.setattr(reproduce, "capture", capture)
    monkeypatch.setattr(reproduce, "problem", partial(dsa.problem, pages=40))
    if resorts:
        monkeypatch.setattr(reproduce, "sorted_pads_first", lambda lists: lists)
    run = SimpleNamespace(tiny=False, seed=3, count=count)
    reproduce.sorted_before_the_capture(run, tokens=2)
    assert found["as given, in a graph"] == 0
    assert found["sorted before the capture"] == (0 if resorts else 2)


@pytest.fixture
def drawn(artifact):
    lists, dsa = artifact("shared.dsa_lists"), artifact("shared.dsa")
    return dsa.problem(lists.Lists(edges()[1:]).indices, seed=5, pages=40)


@pytest.fixture
def empty_queue(artifact, monkeypatch):
    """The module with the float64 reference as the kernel, and as a graph that looks again."""
    module, dsa = artifact("empty_queue"), artifact("shared.dsa")

    def capture(call, inputs):
        outputs = call(*inputs)

        def replay():
            for output, found in zip(outputs, call(*inputs), strict=True):
                output.copy_(found)

        return SimpleNamespace(replay=replay), outputs

    def splitk(*problem, plan):  # noqa: ARG001
        return dsa.reference(*problem)

    monkeypatch.setattr(module, "splitk", splitk)
    monkeypatch.setattr(module, "capture", capture)
    return module


def test_every_way_of_an_empty_queue_follows_lists_that_change(artifact, empty_queue, drawn):
    dsa = artifact("shared.dsa")
    ways = empty_queue.ways_of(drawn, "plan")
    drawn.sparse_indices.copy_(drawn.sparse_indices.flip(0))
    answer = dsa.reference(*drawn)
    for call in ways.values():
        assert sum(map(dsa.wrong_elements, call(), answer)) == 0


def test_a_sort_before_the_graph_sorts_the_list_that_the_graph_reads(
    empty_queue, drawn, monkeypatch
):
    seen = []

    def splitk(*problem, plan):  # noqa: ARG001
        seen.append(problem[4].clone())
        return (torch.zeros(1),)

    monkeypatch.setattr(empty_queue, "splitk", splitk)
    ways = empty_queue.ways_of(drawn, "plan")
    seen.clear()
    ways["sorted, then the graph"]()
    assert torch.equal(seen[-1], drawn.sparse_indices.sort(dim=1).values)


def test_a_slowdown_is_of_the_medians_and_each_way_is_checked(empty_queue, drawn, monkeypatch):
    taken = iter([[1.0, 9.0, 2.0], [4.0, 4.0, 9.0], [1.0, 1.0, 1.0], [3.0, 3.0, 3.0]])
    monkeypatch.setattr(empty_queue, "FLUSH_BYTES", 1)
    monkeypatch.setattr(empty_queue, "event_seconds", lambda _call, _flush: next(taken))
    found = {}

    def count(metric, value, *, unit, subject, case):
        assert (bool(unit), case) == (True, 4)
        found[metric, subject] = value

    empty_queue.empty_queue(SimpleNamespace(device="cpu", count=count), drawn, "plan", case=4)
    assert found["times_as_long", "sorted in the call"] == 2.0
    assert found["times_as_long", "sorted, then the graph"] == 3.0
    assert [value for (metric, _), value in found.items() if metric == "wrong_outputs"] == [0] * 4


def test_a_token_of_which_one_number_is_nan_is_wrong(artifact):
    answer = torch.ones(3, 2, 4, dtype=torch.float64)
    output = answer.bfloat16()
    output[0, 1, 1] = float("nan")
    output[1] *= 1.02
    assert artifact("orders").wrong_tokens(output, answer) == 2
