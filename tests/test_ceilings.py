"""The ceiling kernels as compiled for sm_90: every way to fetch keeps its wide loads, all under way."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton
from borrowed import modules_of

from warplog import profile
from warplog.entry import load
from warplog.source import Repository

pytest.importorskip("cuda.bindings")
ROOT = Path(__file__).parents[1]
FOLDER, ENTRY = ROOT / "artifacts" / "ceilings", ROOT / "entries" / "2026-11-30-ceilings.md"
OPCODES = {
    "load": ("LDG.E.128", "LDG.E.NA.128"),  # NA: L1::no_allocate
    "async": ("LDGSTS.E.BYPASS.128",),
    "bulk": ("UBLKCP",),
}
PTXAS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"


@pytest.fixture(scope="module")
def artifact():
    """The artifact's modules, taken away afterwards: others are called kernel, too."""
    with modules_of(FOLDER.name) as load:
        yield load


@pytest.fixture(scope="module")
def compiled(artifact, tmp_path_factory):
    """Give the PTX of a plan, and the SASS that Triton's own ptxas makes of it."""
    kernel, cuda_module = artifact("kernel"), artifact("shared.cuda_module")
    folder = tmp_path_factory.mktemp("sass")

    def compile_plan(plan, head_bytes, tail_bytes=0, *, indexed=True, copy=False):
        macros = kernel.macros(plan, head_bytes, tail_bytes, indexed=indexed, copy=copy)
        code = cuda_module.compile_source(FOLDER / f"{plan.kernel}.cu", target="ptx", **macros)
        ptx = code.decode().rstrip("\0")
        source, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
        source.write_text(_version_that_ptxas_knows(ptx))
        words = [str(PTXAS), "-arch=sm_90a", "-v", str(source), "-o", str(cubin)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr
        return ptx, profile.sass(cubin.read_bytes())

    return compile_plan


def _version_that_ptxas_knows(ptx):
    """Say PTX ISA 8.0, the first with sm_90: a newer NVRTC names a version of its own."""
    lines = ptx.splitlines()
    return "\n".join(".version 8.0" if line.startswith(".version") else line for line in lines)


def fetches(plan, sass):
    """Count the instructions that fetch rows, 16 bytes a lane or a row at once."""
    return sum(profile.instructions(sass, opcode) for opcode in OPCODES[plan.kernel])


@pytest.mark.parametrize("method", ["loads", "cp.async", "bulk copies"])
def test_a_step_of_the_token_gather_is_fetched_whole(artifact, compiled, method):
    """A row of 1024 + 128 bytes is nine 16-byte loads a lane, or two bulk copies."""
    plan = artifact("plans").TOKENS[method]
    _, sass = compiled(plan, 1024, 128)
    found = fetches(plan, sass)
    assert found >= (2 if plan.kernel == "bulk" else 9)


def test_all_loads_of_a_step_come_before_the_first_use(artifact, compiled):
    """Left to itself the compiler folds early and keeps five of nine loads under way."""
    _, sass = compiled(artifact("plans").TOKENS["loads"], 1024, 128)
    lines = sass.splitlines()
    loads = [place for place, line in enumerate(lines) if "LDG.E.NA.128" in line]
    first = int(re.search(r"128\.CONSTANT R(\d+),", lines[loads[0]])[1])
    register = re.compile(rf"\bR({'|'.join(str(first + word) for word in range(4))})\b")
    after = range(loads[0] + 1, len(lines))
    first_use = next(place for place in after if register.search(lines[place]))
    assert sum(place < first_use for place in loads) == 9


@pytest.mark.parametrize("row_bytes", [32, 64, 128, 256, 512, 1024, 1152, 2048, 4096])
def test_every_row_size_compiles_to_its_instruction_without_spilling(artifact, compiled, row_bytes):
    for plan in artifact("plans").row_plans(row_bytes).values():
        _, sass = compiled(plan, row_bytes)
        assert fetches(plan, sass) >= 1


def test_streams_read_by_wide_loads_and_store_by_wide_stores(artifact, compiled):
    plans = artifact("plans")
    for plan in [*plans.READ.values(), *plans.READ_L2.values()]:
        _, sass = compiled(plan, 4096, indexed=False)
        assert fetches(plan, sass) >= 1
    for name, plan in plans.COPY.items():
        ptx, sass = compiled(plan, 4096, indexed=False, copy=True)
        if name == "bulk copies":
            assert "cp.async.bulk.global.shared::cta.bulk_group" in ptx
        else:
            assert profile.instructions(sass, "STG.E.128") >= 1


def test_the_l2_read_passes_by_the_l1(artifact, compiled):
    """A load that the L1 may keep would measure the L1."""
    ptx, _ = compiled(artifact("plans").READ_L2["loads"], 4096, indexed=False)
    assert profile.instructions(ptx, "ld.global.cg.v4.u32") == 8


def test_no_plan_asks_for_more_shared_memory_than_a_block_may_have(artifact):
    plans = artifact("plans")
    sizes = [32, 64, 128, 256, 512, 1024, 1152, 2048, 4096]
    for row_bytes in sizes:
        for plan in plans.row_plans(row_bytes).values():
            assert plan.shared(row_bytes) <= plans.SHARED_BYTES
            assert plan.blocks != 0 or plan.kernel != "bulk"
    for found in plans.flight_plans().values():
        assert all(plan.shared(1152) <= plans.SHARED_BYTES for plan in found)


COMPILE_TRITON = """
import sys, triton
from triton.backends.compiler import GPUTarget
sys.path[:0] = sys.argv[1:]
import kernel
constants = {"HEAD": 256, "HEAD_STRIDE": 256, "TAIL": 32, "TAIL_STRIDE": 32}
constants |= {"INDEXED": True, "COPY": False, "BLOCK": 8}
signature = dict.fromkeys(["head", "tail", "index", "out"], "*i32")
signature |= dict.fromkeys(["entries", "rows"], "i32") | dict.fromkeys(constants, "constexpr")
signature = {name: signature[name] for name in kernel._gather_rows.arg_names}
places = [place for place, name in enumerate(signature) if signature[name] == "*i32"]
attrs = {(place,): [["tt.divisibility", 16]] for place in places}
source = triton.compiler.ASTSource(kernel._gather_rows, signature, constants, attrs)
code = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 2})
print(code.asm["ptx"])
"""


def test_triton_fetches_sixteen_bytes_a_lane():
    """Compiled in a process of its own, because here Triton's interpreter takes its place."""
    words = [sys.executable, "-c", COMPILE_TRITON, str(FOLDER), str(FOLDER.parent)]
    own = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(words, capture_output=True, text=True, env=own, check=True)
    assert profile.instructions(done.stdout, "ld.global.v4") >= 9


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="says what a CPU does")
def test_a_machine_without_a_gpu_has_no_cuda_subjects(artifact, run):
    assert run.device == torch.device("cpu")
    assert artifact("tables").cuda(run, artifact("plans").READ) == {}


class Listed:
    """A run on a GPU that there is none of: it lists what a full one compares, and does none of it."""

    on_gpu, tiny, seed = True, False, 3
    device = torch.device("cpu")

    def __init__(self, *, counting=False):
        self.counting, self.asked, self.compared = counting, [], []

    def sizes(self, full, tiny):
        del tiny
        return full

    def compare(self, subjects, *_, operation, **sizes):
        sizes |= {"operation": operation}
        kept = {name: size for name, size in sizes.items() if isinstance(size, int | str)}
        self.compared += [(subject, kept) for subject in subjects]

    def profile(self, subject, _call, *, counters, **workload):
        self.asked += [(subject, workload, counter) for counter in counters]


def test_a_full_run_compares_all_that_the_entry_speaks_of(artifact, monkeypatch):
    """What the entry's claims and values no longer need may go; what they name may not."""
    run, streams, rows, products = Listed(), *map(artifact, ("streams", "rows", "products"))
    monkeypatch.setattr(products, "count_older_kernels", lambda *_: None)
    for measure in (streams.read, streams.copy, streams.read_l2, products.matrix_products):
        measure(run)
    for measure in (rows.by_size, rows.by_table, rows.by_bytes_in_flight, rows.by_warps):
        measure(run)
    rows.for_tokens(run)
    entry = load(ENTRY, Repository.find(ENTRY), None)
    derived = ("bandwidth", "latency", "speedup", "rate", "roofline_fraction", "error")
    for name, quantity in entry.quantities.items():
        if quantity.metric in derived:
            subjects = {quantity.subject, quantity.over} - {None}
            found = {
                one for one, sizes in run.compared if quantity.workload.items() <= sizes.items()
            }
            assert subjects <= found, name


def test_the_process_that_reads_counters_does_nothing_else(artifact, monkeypatch):
    """Under Nsight Compute nothing but counters is kept, and graphs of a thousand nodes are slow."""
    script, run = artifact("reproduce"), Listed(counting=True)
    for name in ("streams", "launches", "matrix_products", "watch_products"):
        monkeypatch.setattr(script, name, None)
    script.reproduce(run)
    assert {workload["row_bytes"] for _, workload, _ in run.asked} == {32, 64, 128, 1152}
    assert run.compared == []


def test_plans_with_the_same_bytes_under_way_take_turns_in_one_comparison(artifact):
    plans, rows, run = artifact("plans"), artifact("rows"), Listed()
    rows.by_bytes_in_flight(run)
    every = [(name, plan) for name, several in plans.flight_plans().items() for plan in several]
    wanted = sorted((name, plan.in_flight(1152)) for name, plan in every)
    assert sorted((subject, sizes["in_flight"]) for subject, sizes in run.compared) == wanted
    grouped = rows.grouped(plans.flight_plans(), lambda plan: plan.in_flight(1152))
    assert list(grouped[36864]) == ["loads", "cp.async", "bulk copies"]


@pytest.fixture
def started(artifact, monkeypatch):
    """What would be launched on a GPU, and how; nothing is."""
    kernel, found = artifact("kernel"), []
    kernel.loaded.cache_clear()
    monkeypatch.setattr(kernel, "function", lambda *names, **_: names)
    monkeypatch.setattr(kernel, "launch", lambda *words: found.append(words))
    monkeypatch.setattr(kernel, "multiprocessors", lambda: 2)
    yield found
    kernel.loaded.cache_clear()


def test_a_gather_starts_the_kernel_of_its_plan_on_a_grid_of_one_row(artifact, started):
    kernel = artifact("kernel")
    head, index = torch.ones(64, 32, dtype=torch.int32), torch.arange(40, dtype=torch.int32)
    plan = kernel.Plan("async", stages=2, tile=4, threads=64)
    kernel.gather(plan, head, index)
    [((source, entry, shared), grid, threads, given, arguments)] = started
    assert (source, entry) == (FOLDER / "async.cu", "gather")
    assert (grid, threads) == ((5, 1), 64)
    assert shared == given == plan.shared(128)
    assert [value.value for value in arguments.values[3:5]] == [64, 40]


def test_a_grid_that_stays_has_its_blocks_a_multiprocessor(artifact, started):
    kernel = artifact("kernel")
    head = torch.ones(4096, 32, dtype=torch.int32)
    kernel.gather(kernel.Plan(threads=64, blocks=3), head)
    assert started[0][1] == (6, 1)


def test_a_launch_of_one_word_says_where_and_what(artifact, monkeypatch):
    touch, found = artifact("touch"), []
    monkeypatch.setattr(touch, "function", lambda source, entry: (source.name, entry))
    monkeypatch.setattr(touch, "launch", lambda *words: found.append(words))
    touch.touch(torch.zeros(8, dtype=torch.int32), 3, 5)
    [(kernel, grid, block, shared, arguments)] = found
    assert (kernel, grid, block, shared) == (("touch.cu", "touch"), (1, 1), 1, 0)
    assert [value.value for value in arguments.values[1:]] == [3, 5]
