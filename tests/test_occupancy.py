"""What is special about occupancy: shared memory that only keeps blocks apart, and the changed arithmetic."""

import importlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from borrowed import modules_of

ARTIFACTS = Path(__file__).parents[1] / "artifacts"
FOLDER = ARTIFACTS / "occupancy"
REGISTERS = 65536  # of a multiprocessor; a warp takes them in steps of 256

COMPILE = """
import json, re, subprocess, sys, tempfile
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
import compiled, kernel, triton
import triton.language as tl
from plans import SMALL, held, report
from shared.splitk_code import TYPES
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

def registers(cubin):
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        words = [str(tool), "-res-usage", file.name]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    return int(re.findall(r"REG:(\\d+)", done.stdout)[-1])

def arithmetic(kind, tail):
    function = kernel._split_arithmetic
    names = list(function.arg_names)
    constants = {"WIDTH": 2048, "SPLITS": 2, "BLOCK": 128, "STAGES": 3, "EXP": kind, "TAIL": tail,
                 "HEADS": 16, "CKV": 512, "KPE": 64, "OPERAND": tl.bfloat16, "LOG2_E": kernel.LOG2_E}
    signature = {name: TYPES.get(name, "constexpr") for name in names}
    given = {(names.index(name),): value for name, value in constants.items()}
    aligned = {(place,): [["tt.divisibility", 16]] for place, name in enumerate(names)
               if signature[name].startswith("*")}
    source = ASTSource(function, signature, given, aligned)
    code = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8})
    return {"ex2": code.asm["ptx"].count("ex2.approx"), "shared": code.metadata.shared,
            "copies": code.asm["ptx"].count("cp.async.cg")}

plans = {"report": (report(64), 1), "small": (SMALL, 4), **held()}
kernels = {name: compiled.compile_plan(plan) for name, (plan, _) in plans.items()}
print(json.dumps({
    "plans": {
        name: {"shared": kernel.metadata.shared, "registers": registers(kernel.asm["cubin"]),
               "warps": plans[name][0].warps, "blocks": plans[name][1]}
        for name, kernel in kernels.items()
    },
    "parameters": len(set(re.findall(r"_split_param_\\d+", kernels["small"].asm["ptx"]))),
    "arithmetic": {
        name: arithmetic(kind, tail)
        for name, kind, tail in (("exp2", 0, 1), ("exp", 1, 1), ("polynomial", 2, 1),
                                 ("no tail", 0, 0), ("near tail", 0, 2))
    },
}))
"""


@pytest.fixture(scope="module")
def artifact():
    """The artifact's modules, taken away afterwards: others are called kernel, too."""
    with modules_of(FOLDER.name) as load:
        yield load


@pytest.fixture(scope="module")
def code():
    """What the compiler makes for an H200; a process of its own, where the interpreter is off."""
    own = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    words = [sys.executable, "-c", COMPILE, str(FOLDER), str(ARTIFACTS)]
    done = subprocess.run(words, capture_output=True, text=True, env=own, check=True)
    return json.loads(done.stdout)


@pytest.fixture
def problem(artifact):
    """One token whose second split lists no row, and whose first has padding in it."""
    assert artifact
    dsa = importlib.import_module("shared.dsa")
    indices = torch.full((1, 64), -1, dtype=torch.int32)
    indices[0, :20] = torch.arange(40, 60)
    indices[0, 5] = -1
    return dsa.problem(indices, seed=4, pages=1)


@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
def test_padding_leaves_room_for_so_many_blocks_and_for_no_more(artifact, blocks):
    plans = artifact("plans")
    each = plans.padded_bytes(blocks) + plans.RESERVED_BYTES
    assert plans.MULTIPROCESSOR_BYTES // each == blocks
    assert plans.padded_bytes(blocks) <= plans.BLOCK_BYTES


def test_registers_and_code_allow_the_blocks_that_are_held(artifact, code):
    """Only the padding may limit them: the code needs no more memory, and registers suffice."""
    for name, each in code["plans"].items():
        if name != "report":
            assert each["shared"] <= artifact("plans").padded_bytes(each["blocks"]), name
        per_block = -(-each["registers"] // 8) * 8 * 32 * each["warps"]
        assert REGISTERS // per_block >= each["blocks"], name


def test_the_plan_of_the_report_has_its_shared_memory(code):
    assert code["plans"]["report"]["shared"] == 171520


def test_the_padded_launch_gives_every_parameter_of_the_compiled_kernel(
    artifact, code, problem, monkeypatch
):
    compiled, plans = artifact("compiled"), artifact("plans")
    seen = []
    monkeypatch.setattr(compiled, "loaded", lambda *_: "kernel")
    monkeypatch.setattr(compiled, "_reduce", defaultdict(lambda: lambda *_, **__: None))
    monkeypatch.setattr(compiled, "launch", lambda *words: seen.append(words))
    compiled.padded(*problem, plan=plans.SMALL, shared=76800)
    kernel, grid, threads, shared, arguments = seen[0]
    assert (kernel, grid, threads, shared) == ("kernel", (1, 8), 128, 76800)
    assert len(arguments.values) == code["parameters"] == 13


def test_less_shared_memory_than_the_code_needs_is_refused(artifact, monkeypatch):
    compiled, plans = artifact("compiled"), artifact("plans")
    needs = SimpleNamespace(metadata=SimpleNamespace(shared=56448))
    monkeypatch.setattr(compiled, "compile_plan", lambda _: needs)
    with pytest.raises(ValueError, match="needs 56448 bytes of shared memory, not 1024"):
        compiled.loaded(plans.SMALL, 1024)


@pytest.mark.parametrize("exponential", ["exp2", "exp", "polynomial"])
def test_every_exponential_is_right_with_padding_and_an_empty_split(artifact, problem, exponential):
    kernel, splitk = artifact("kernel"), importlib.import_module("shared.splitk")
    dsa = importlib.import_module("shared.dsa")
    plan = splitk.Plan(block=16, stages=2, splits=2)
    output, lse = kernel.attend(*problem, plan=plan, exponential=exponential)
    expected, sums = dsa.reference(*problem)
    assert (output.double() - expected).norm() <= 5e-3 * expected.norm()
    assert torch.allclose(lse.double(), sums, atol=1e-3)


@pytest.mark.parametrize("name", ["attend", "split_alone"])
def test_a_scale_that_is_no_number_is_refused(artifact, problem, name):
    plan = importlib.import_module("shared.splitk").Plan(block=16, stages=2, splits=2)
    with pytest.raises(ValueError, match="sm_scale is None: pass a finite int or float"):
        getattr(artifact("kernel"), name)(*problem._replace(sm_scale=None), plan=plan)


def test_a_token_without_a_row_gives_zero_for_every_exponential(artifact, problem):
    kernel, splitk = artifact("kernel"), importlib.import_module("shared.splitk")
    empty = problem._replace(sparse_indices=torch.full_like(problem.sparse_indices, -1))
    for exponential in kernel.EXPONENTIALS:
        plan = splitk.Plan(block=16, stages=2, splits=2)
        output, lse = kernel.attend(*empty, plan=plan, exponential=exponential)
        assert not output.any()
        assert (lse == -torch.inf).all()


def test_without_the_tail_the_answer_is_that_of_a_zero_tail(artifact, problem):
    """And another one where the tail is not zero, so that it is the tail that is left out."""
    kernel, splitk = artifact("kernel"), importlib.import_module("shared.splitk")
    dsa, plan = importlib.import_module("shared.dsa"), splitk.Plan(block=16, stages=2, splits=2)
    found = kernel.attend(*problem, plan=plan, tail="none")[0].double()
    tailless = dsa.reference(*problem._replace(q_pe=torch.zeros_like(problem.q_pe)))[0]
    assert (found - tailless).norm() <= 5e-3 * tailless.norm()
    assert (found - dsa.reference(*problem)[0]).norm() > 1e-2 * tailless.norm()


def test_a_tail_from_near_is_read_from_row_mod_64(artifact, problem):
    """It is multiplied like any other: only where it comes from differs."""
    kernel, splitk = artifact("kernel"), importlib.import_module("shared.splitk")
    dsa, plan = importlib.import_module("shared.dsa"), splitk.Plan(block=16, stages=2, splits=2)
    far = problem._replace(
        ckv_cache=problem.ckv_cache.repeat(2, 1, 1),
        kpe_cache=torch.cat([problem.kpe_cache, problem.kpe_cache + 1]),
        sparse_indices=torch.where(problem.sparse_indices < 0, -1, problem.sparse_indices + 64),
    )
    found = kernel.attend(*far, plan=plan, tail="near")[0].double()
    expected = dsa.reference(*problem)[0]
    assert (found - expected).norm() <= 5e-3 * expected.norm()


def test_the_reduction_alone_weighs_the_splits_by_their_sums(artifact):
    """With an empty split among them, whose sum is -inf."""
    weigh, weighed = artifact("kernel").weigh, artifact("reference").weighed
    generator = torch.Generator().manual_seed(3)
    partial = torch.randn((1, 4, 16, 512), generator=generator)
    sums = torch.randn((1, 4, 16), generator=generator)
    sums[:, 2] = -torch.inf
    for found, expected in zip(weigh(partial, sums), weighed(partial, sums), strict=True):
        assert torch.allclose(found.double(), expected, rtol=1e-2, atol=1e-2)


def test_only_the_polynomial_leaves_the_special_function_unit(code):
    counts = {name: each["ex2"] for name, each in code["arithmetic"].items()}
    assert counts == {"exp2": 10, "exp": 10, "polynomial": 0, "no tail": 10, "near tail": 10}


def test_changed_arithmetic_keeps_the_memory_of_the_study_kernel(code):
    """All loads stay as they are, so that a time tells of the arithmetic; the tail takes a ninth."""
    report, found = code["plans"]["report"]["shared"], code["arithmetic"]
    for name in ("exp2", "exp", "polynomial", "near tail"):
        assert (found[name]["shared"], found[name]["copies"]) == (report, 72)
    assert found["no tail"]["copies"] == 64


@pytest.mark.parametrize(
    "reason",
    ["long_scoreboard", "short_scoreboard", "barrier", "wait", "lg_throttle", "mio_throttle",
     "math_pipe_throttle", "selected", "not_selected"],
)  # fmt: skip
def test_every_profiled_call_counts_what_a_warp_waits_for(artifact, monkeypatch, reason):
    """Queues and the scheduler too, so that the reasons that are left are few."""
    reproduce, asked = artifact("reproduce"), []
    run = SimpleNamespace(tiny=False, profile=lambda _, __, counters, **___: asked.append(counters))
    monkeypatch.setattr(reproduce, "split_alone", None)
    reproduce.count(run)
    assert len(asked) == 4
    name = f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
    assert all(counters.count(name) == 1 for counters in asked)
