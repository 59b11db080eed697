"""Our sparse attention without a GPU: what is compiled for sm_90a, what is refused, and the peers."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
import torch
import triton
from borrowed import ARTIFACTS, modules_of
from shared import dsa
from shared.cuda_module import compile_source
from shared.dsa import wrong_elements
from shared.dsa_decode import attend, peers, workloads
from shared.dsa_decode.plan import LONG, QUEUED, RAGGED_TOKENS, Plan, plan_for

from warplog import profile

pytest.importorskip("cuda.bindings")
FOLDER = ARTIFACTS / "shared" / "dsa_decode"
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
SHARED_OF_A_MULTIPROCESSOR, SHARED_OF_A_BLOCK, TAKEN_BY_THE_SYSTEM = 228 * 1024, 227 * 1024, 1024
REGISTERS = 65_536


@pytest.fixture(scope="module")
def artifact():
    """The artifact's modules, taken away afterwards: others are called kernel, too."""
    with modules_of("sparse-attention") as load:
        yield load


@pytest.fixture(scope="module")
def plans(artifact):
    """Every plan that the kernel chooses for some lists, and those of the ladder."""
    script = artifact("reproduce")
    found = set()
    for tiny in (False, True):
        run = SimpleNamespace(tiny=tiny)
        found |= {
            step for tokens in (1, 8, 64) for step in script.steps(run, tokens).values() if step
        }
        found |= {*script.checked(run)}
    return sorted(found, key=str)


@pytest.fixture(scope="module")
def cubins(plans):
    """The machine code of each plan."""
    return {plan: compile_source(plan.source, **plan.macros) for plan in plans}


def resources(cubin, folder):
    """Registers, stack and shared memory of the kernel `decode`, as cuobjdump tells them."""
    path = folder / "kernel.cubin"
    path.write_bytes(cubin)
    words = [str(TOOLS / "cuobjdump"), "-res-usage", str(path)]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    line = told.partition("Function decode:")[2].splitlines()[1]
    return {name: int(value) for name, value in re.findall(r"(REG|STACK):(\d+)", line)}


def test_no_register_of_the_kernel_goes_to_local_memory(cubins, tmp_path):
    """Those of the design before do: it is kept to be timed."""
    for plan, cubin in cubins.items():
        if plan.source.name != "mma.cu":
            assert resources(cubin, tmp_path)["STACK"] == 0, plan


def test_as_many_blocks_as_a_plan_says_fit_a_multiprocessor(cubins, tmp_path):
    for plan, cubin in cubins.items():
        assert plan.shared <= SHARED_OF_A_BLOCK
        room = plan.resident * (plan.shared + TAKEN_BY_THE_SYSTEM)
        assert room <= SHARED_OF_A_MULTIPROCESSOR, plan
        registers = resources(cubin, tmp_path)["REG"]
        assert plan.resident * plan.threads * registers <= REGISTERS, plan


def test_rows_are_copied_16_bytes_a_lane_and_multiplied_on_the_matrix_unit(cubins):
    sass = profile.sass(cubins[plan_for(64)])
    assert profile.instructions(sass, "LDGSTS.E.BYPASS.128.ZFILL") + profile.instructions(
        sass, "LDGSTS.E.BYPASS.128"
    )
    assert profile.instructions(sass, "HGMMA") >= 20
    assert profile.instructions(sass, "HMMA") == 0


def test_a_block_asks_for_a_tile_and_does_not_wait_for_the_answer(cubins):
    """What is done to the answer at once would be waited for at once."""
    sass = profile.sass(cubins[QUEUED])
    lines = [line for line in sass.splitlines() if re.search(r"/\*[0-9a-f]{4}\*/", line)]
    asked = [at for at, line in enumerate(lines) if "ATOMG" in line]
    assert len(asked) >= 5
    answers = []
    for at in asked:
        after, rows, _ = "".join(lines[at + 1 : at + 60]).partition("LDGSTS")
        if rows and "BAR" not in after:
            answer = re.search(r"ATOMG\S* PT, (R\d+)", lines[at])[1]
            answers.append(re.search(rf"\b{answer}\b", after))
    thief, *tiles = answers  # a thief has to know which one it is
    assert thief
    assert tiles == [None, None]


def test_matrix_products_are_not_run_one_by_one(cubins):
    """Where the compiler cannot see that a warp is whole, it waits after every product."""
    for plan, cubin in cubins.items():
        if plan.source.name != "mma.cu":
            waits = profile.instructions(profile.sass(cubin), "WARPGROUP.DEPBAR")
            assert waits <= 2, plan


def test_every_number_of_tokens_has_a_plan_that_divides_the_list():
    lengths = [2048, *[1024] * 65_534]
    for tokens in [*range(1, 300), 1000, 65_535]:
        plan = plan_for(tokens)
        assert plan_for(tokens, [2048] * tokens) == plan
        assert plan_for(tokens, lengths[:tokens]) == (QUEUED if tokens >= RAGGED_TOKENS else plan)
        assert 2048 % plan.splits == 0
        assert plan.splits % plan.cluster == 0
        assert plan.cluster <= 16
        assert plan.groups == 1 or plan.cluster > 1


@pytest.mark.parametrize(
    ("tokens", "plan"), [(7, Plan(16, 16)), (8, Plan(16, 8)), (32, Plan(8, 8)), (33, QUEUED)]
)
def test_a_long_list_among_short_ones_has_more_blocks(tokens, plan):
    assert plan_for(tokens, [1, 2048, *[20] * (tokens - 2)]) == plan
    assert plan_for(tokens, [1, LONG, *[20] * (tokens - 2)]) != Plan(16, 8)


def test_lengths_may_be_a_tensor():
    ragged = torch.tensor([2048] + [1] * 63, dtype=torch.int16)
    assert plan_for(64, ragged) == QUEUED
    assert plan_for(8, ragged[:8]) == Plan(16, 8)


def test_lists_without_a_row_have_a_plan():
    assert plan_for(64, [0] * 64) == plan_for(64)


def test_there_is_room_for_the_partial_outputs_of_all_lists_that_others_may_join():
    seen = re.search(r"SEEN = (\d+)", (FOLDER / "queue.cuh").read_text())[1]
    assert QUEUED.joined == 32 * int(seen)


def test_the_marks_are_as_many_as_the_kernel_writes():
    header = (FOLDER / "attention.cuh").read_text()
    for plan in (Plan(1), QUEUED):
        assert int(re.search(r"MARKS = (\d+)", header)[1]) == len(plan.marks)
        source = plan.source.read_text()
        written = {int(number) for number in re.findall(r"MARK\((\d+)\);", source)}
        assert written == set(range(len(plan.marks)))


@pytest.mark.parametrize("kind", ["of 8 tokens", "queued"])
def test_marks_cost_nothing_where_they_are_not_asked_for(cubins, kind):
    plan = QUEUED if kind == "queued" else plan_for(8)
    traced = compile_source(plan.source, **plan.macros, TRACE=1)
    assert profile.instructions(profile.sass(traced), "CS2R") > 0
    assert "SR_CLOCK" in profile.sass(traced)
    assert "SR_CLOCK" not in profile.sass(cubins[plan])


class Untouched:
    """Outputs that nobody writes into."""

    def __init__(self, tokens=1):
        self.output = torch.full((tokens, 16, 512), 7.0, dtype=torch.bfloat16)
        self.lse = torch.full((tokens, 16), 7.0)

    def holds(self):
        return bool((self.output == 7).all() and (self.lse == 7).all())


def inputs(tokens=1, pages=2, width=2048):
    """Make inputs of the right form, all ones."""
    bf16 = torch.bfloat16
    return [
        torch.ones(tokens, 16, 512, dtype=bf16),
        torch.ones(tokens, 16, 64, dtype=bf16),
        torch.ones(pages, 64, 512, dtype=bf16),
        torch.ones(pages, 64, 64, dtype=bf16),
        torch.zeros(tokens, width, dtype=torch.int32),
        0.1,
    ]


@pytest.mark.parametrize(
    ("place", "made", "message"),
    [
        (0, torch.ones(1, 16, 512), "q_nope is torch.float32"),
        (0, torch.ones(1, 8, 512, dtype=torch.bfloat16), r"q_nope has shape \[1, 8, 512\]"),
        (1, torch.ones(1, 16, 128, dtype=torch.bfloat16)[..., ::2], "q_pe has strides"),
        (2, torch.ones(2, 32, 512, dtype=torch.bfloat16), r"ckv_cache has shape \[2, 32, 512\]"),
        (3, torch.ones(2, 64, 64, dtype=torch.bfloat16, device="meta"), "kpe_cache is on meta"),
        (4, torch.zeros(1, 1024, dtype=torch.int32), "sparse_indices has shape"),
        (4, torch.zeros(1, 2048, dtype=torch.int64), "sparse_indices is torch.int64"),
        (4, [0] * 2048, "sparse_indices is"),
    ],
)
def test_what_the_kernel_cannot_take_is_refused_before_a_launch(place, made, message):
    given, outputs = inputs(), Untouched()
    given[place] = made
    with pytest.raises(ValueError, match=message):
        attend.decode(*given, output=outputs.output, lse=outputs.lse)
    assert outputs.holds()


def test_lengths_of_other_lists_are_refused():
    with pytest.raises(ValueError, match="lengths has 2 numbers: one a token, 1"):
        attend.decode(*inputs(), lengths=[2048, 2048])


def test_no_token_is_refused():
    with pytest.raises(ValueError, match="no token"):
        attend.decode(*inputs(tokens=0))


def test_an_index_beyond_the_cache_is_refused_where_it_is_asked_for():
    given, outputs = inputs(), Untouched()
    given[4][0, 5] = 128
    with pytest.raises(ValueError, match="sparse_indices holds 128"):
        attend.decode(*given, output=outputs.output, lse=outputs.lse, debug=True)
    assert outputs.holds()


def test_a_cpu_is_refused_by_name():
    with pytest.raises(ValueError, match=r"on cpu: decode needs a GPU of compute capability 9\.0"):
        attend.decode(*inputs())


def test_the_edges_are_what_they_are_called():
    listed = workloads.edges(torch.device("cpu"), 3, 64).sparse_indices
    valid = (listed >= 0).sum(dim=1).tolist()
    assert valid == [0, 1, 1, 1, 48, 100, 1024, 2048, 1001, 2, 2048]
    assert listed[7].unique().numel() == 1
    assert listed[8].unique().numel() == 1001  # 1000 rows and the padding: one row is there twice
    assert listed[9, :2].tolist() == [0, 64 * 64 - 1]


@pytest.fixture(scope="module")
def answered(artifact):
    """The edges, the rows that are listed, and the float64 answer."""
    made = workloads.edges(torch.device("cpu"), 3, 64)
    listed = made.sparse_indices
    return made, listed[listed >= 0], artifact("reference").attention(*made)


@pytest.mark.parametrize("name", ["eager", "eager, whole cache", "batched"])
def test_the_peers_in_pytorch_are_right_on_every_edge(answered, name):
    made, table, expected = answered
    whole = {"whole_cache": True} if "whole" in name else {}
    call = peers.batched if name == "batched" else peers.eager
    for found, right in zip(call(*made, table, **whole), expected, strict=True):
        assert wrong_elements(found, right) == 0


def test_a_row_sum_wraps_as_32_bits_do_and_padding_gives_none(artifact):
    _, _, ckv, kpe, _, _ = inputs()
    ckv.view(torch.int32)[0, 0] = 2**30
    listed = torch.tensor([[0, -1, 1]], dtype=torch.int32)
    found = artifact("reference").row_sums(ckv, kpe, listed)
    ones = torch.ones(1, 2, dtype=torch.bfloat16).view(torch.int32).item()
    wrapped = (256 * 2**30 + 32 * ones + 2**31) % 2**32 - 2**31
    assert found.tolist() == [[wrapped, 0, (288 * ones + 2**31) % 2**32 - 2**31]]


@pytest.fixture
def lend(monkeypatch):
    """Lend states on a stream of a CPU, which `lend.stream` names."""
    held = SimpleNamespace(stream=7, capturing=False)
    of_now = lambda _: SimpleNamespace(cuda_stream=held.stream)  # noqa: E731
    monkeypatch.setattr(torch.cuda, "current_stream", of_now)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: held.capturing)
    monkeypatch.setattr(attend, "_STATES", {})
    monkeypatch.setattr(attend, "_LOCKS", {})
    held.state = lambda tokens=17: attend._state(tokens, torch.device("cpu"))
    return held


def test_launches_of_a_stream_take_turns(lend):
    found = []
    for _ in range(3):
        with lend.state() as states:
            found.append([state.data_ptr() for state in states])
    first, second = found[0]
    assert found == [[first, second], [second, first], [first, second]]


@pytest.mark.parametrize("raised", [RuntimeError, KeyboardInterrupt])
def test_what_was_raised_may_have_come_after_the_launch(lend, raised):
    """An interrupt is raised once the driver has returned: the next launch needs another state."""

    def interrupted():
        with lend.state() as (state, _):
            state.fill_(1)
            raise raised

    with pytest.raises(raised):
        interrupted()
    with lend.state() as states:
        assert not any(state.any() for state in states)


def test_a_graph_has_a_state_of_its_own(lend):
    lend.capturing = True
    with lend.state() as (state, next_state):
        assert next_state is None
        assert state.shape == (18, 4)
        assert not state.any()
    assert not attend._STATES


def test_a_launch_on_another_stream_does_not_wait(lend):
    with lend.state():
        lend.stream = 8
        with lend.state():
            pass


def test_states_of_long_ago_are_given_back(lend):
    for tokens in range(1, 200):
        with lend.state(tokens):
            pass
    assert [key[2] for key in attend._STATES] == list(range(200 - attend.KEPT, 200))


class TinyRun:
    """A run that wants tiny sizes on a CPU."""

    device = torch.device("cpu")
    tiny, on_gpu, seed = True, False, 3


@pytest.mark.parametrize(
    "name",
    ["uniform", "uniform-of-3000", "clustered-16", "shuffled contest-like", "interleaved uniform",
     "sorted-pads-first contest-like", "sorted-pads-last contest-like"],
)  # fmt: skip
def test_a_family_lists_as_many_rows_whatever_the_seed(name):
    found = workloads.drawn(TinyRun, name, 1)
    first, second = (found.inputs(seed, 64) for seed in (1, 2))
    assert first[-1].shape == second[-1].shape
    assert not torch.equal(first[-1], second[-1])
    if "pads-last" in name:
        assert (first[4].diff(dim=1)[first[4][:, 1:] >= 0] > 0).all()


def test_what_a_call_moves_is_never_said_too_high():
    """A time below the floor is an error: the floor may not ask for rows that no draw has."""
    found = workloads.drawn(TinyRun, "uniform-of-3000", 2)
    said = workloads.amounts(found, 1)["traffic"]
    for seed in range(5):
        assert said <= dsa.traffic(2, found.draw(seed).unique_rows)


def test_the_sanitizer_sees_the_earlier_design_where_each_lane_speaks_for_itself(artifact):
    """It does not follow that one lane's word comes after what the others of its warp have read."""
    script, earlier = artifact("reproduce"), artifact("kernel").EarlierPlan
    run = SimpleNamespace(tiny=True)
    plans = [*script.checked(run), *script.steps(run, 1).values()]
    found = [plan for plan in plans if isinstance(plan, earlier)]
    assert len(found) == 7
    assert all(plan.each for plan in found)


def test_a_ladder_step_differs_from_the_one_before(artifact):
    for tokens in (1, 8, 64):
        steps = list(artifact("reproduce").steps(SimpleNamespace(tiny=False), tokens).values())
        assert steps[0] is None
        assert len(set(steps)) == len(steps)


class Compared(TinyRun):
    """A run that only draws what a comparison would draw, and keeps who was compared."""

    def __init__(self):
        self.subjects = []

    def compare(self, subjects, *, inputs, **_):
        self.subjects.append(list(subjects))
        for seed in range(5):
            inputs(seed)


def test_two_comparisons_of_a_family_draw_its_lists_once(artifact, monkeypatch):
    drawn = []
    found = workloads.drawn(TinyRun, "uniform", 1)
    counted = replace(found, draw=lambda seed: drawn.append(seed) or found.draw(seed))
    run = Compared()
    monkeypatch.setattr(run, "on_gpu", True, raising=False)
    artifact("reproduce").family(run, artifact("contenders").Peers(TinyRun), counted, samples=3)
    assert [len(names) for names in run.subjects] == [2, 1]
    assert sorted(drawn) == [0, 1, 2, 3, 4]


def test_what_waits_for_the_host_takes_turns_with_the_kernel_and_is_no_baseline(artifact):
    """A baseline is timed twice and held against itself: a host's moods would look like a doubt."""
    run = SimpleNamespace(tiny=False, on_gpu=True, seed=3, device=TinyRun.device)
    peers = artifact("contenders").Peers(TinyRun)
    names = list(peers.subjects(run, workloads.public(TinyRun, 1)))
    assert names[0] == "kernel"
    assert {"batched", "eager", "eager, whole cache in float32"} <= set(names)


def test_what_fails_at_its_first_call_fails_where_it_is_timed(artifact, monkeypatch):
    called = []
    script = artifact("reproduce")
    monkeypatch.setattr(script, "splitk", lambda *_, plan: called.append(plan) or 1 / 0)
    peers = SimpleNamespace(compiled=lambda *_: 1 / 0)
    script.call_first(TinyRun, peers)
    assert called


def test_all_compilers_work_side_by_side(artifact, monkeypatch):
    """The longest, flashinfer's, takes half a minute: the others work meanwhile."""
    ours, waited = Event(), []
    script = artifact("reproduce")
    monkeypatch.setattr(script, "build", lambda *_: ours.set())
    monkeypatch.setattr(script, "call_first", lambda *_: None)
    peers = SimpleNamespace(backends=("fa3",), build=lambda _: waited.append(ours.wait(20)))
    run = SimpleNamespace(on_gpu=True, tiny=False)
    listing = script.made_ready(run, peers)
    assert waited == [True]
    assert profile.instructions(listing, "HGMMA") >= 20
