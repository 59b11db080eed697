"""What is special about gather-codegen: who fetches what in PTX, and the study kernel's code at sm_90."""

import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from borrowed import modules_of

ARTIFACTS = Path(__file__).parents[1] / "artifacts"
FOLDER = ARTIFACTS / "gather-codegen"
TILE_ROW_BYTES = 1152

COMPILE = """
import json, sys
sys.path[:0] = sys.argv[1:4]
import compiled, control, examine, kernel, ptx, triton
import triton.language as tl
from plans import ONE_BUFFER, REGISTERS, one_wave, report, stopped, swept
from shared.splitk import Plan
from warplog import profile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

def gather(way):
    names = list(kernel._gather_sum.arg_names)
    types = {"rows": "*bf16", "indices": "*i32", "out": "*fp32"}
    constants = {"WAY": way, "LIST": 64, "PIECE": 16, "COLUMNS": 512, "STAGES": 3,
                 "OPERAND": tl.bfloat16}
    signature = {name: types.get(name, "constexpr") for name in names}
    given = {(names.index(name),): value for name, value in constants.items()}
    aligned = {(place,): [["tt.divisibility", 16]] for place in range(3)}
    source = ASTSource(kernel._gather_sum, signature, given, aligned)
    options = {"num_warps": 4, "num_stages": 3}
    code = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    return ptx.fetches(code.asm["ptx"])

plans = {
    f"{block} {stages} {masks}": Plan(block=block, stages=stages, splits=8, warps=8, masks=masks)
    for block, stages, masks in (
        (128, 3, True), (128, 3, False), (128, 5, True), (64, 1, True), (64, 3, True),
        (64, 4, True), (64, 5, True), (64, 5, False), (64, 3, False),
    )
}
plans["load 2"] = report(4, stop="load", stages=2)
plans["load 3"] = report(4, stop="load")
def in_flight(plan):
    return compiled.loads_in_flight(profile.sass(compiled.compile_plan(plan).asm["cubin"]))

found = {name: compiled.facts_of(plan)._asdict() for name, plan in plans.items()}
counted = []
class Run:
    def count(self, metric, value, *, unit, subject, **sizes):
        counted.append([subject, metric, sizes, value])

examine.examine_control(Run())
read = ptx.fetches(control.compile_computed(ONE_BUFFER).asm["ptx"])
computed = [control._split_computed.arg_names[fetch.parameter] for fetch in read]
same = [compiled.compile_plan(plans[f"64 {stages} True"]).asm["ptx"] for stages in (3, 4)]
print(json.dumps({
    "capped": compiled.facts_of(ONE_BUFFER, REGISTERS)._asdict(),
    "one wave": {name: compiled.facts_of(plan)._asdict() for name, plan in one_wave().items()},
    "in flight": [in_flight(stopped(64)["load, plain"]), in_flight(report(64, stages=1))],
    "control": counted, "computed": sorted(set(computed)),
    "facts": found, "same": same[0] == same[1], "swept": len(swept()),
    "gathers": {way: gather(place) for place, way in enumerate(kernel.WAYS)},
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
    words = [sys.executable, "-c", COMPILE, str(FOLDER), str(ARTIFACTS), str(ARTIFACTS.parent)]
    done = subprocess.run(words, capture_output=True, text=True, env=own, check=True)
    return json.loads(done.stdout)


def text(*lines):
    return "\n".join(f"\t{line}" for line in lines)


def test_an_address_is_followed_to_its_parameter_and_not_through_what_was_loaded(artifact):
    """The row is made of a loaded index and of the table's pointer: it is the table that is read."""
    found = artifact("ptx").fetches(
        text(
            "ld.param.b64 	%rd1, [gather_param_0];",
            "ld.param.b64 	%rd2, [gather_param_1];",
            "add.s64 	%rd3, %rd2, 64;",
            "@%p1 ld.global.b32 { %r1 }, [ %rd3 + 0 ];",
            "mul.wide.s32 	%rd4, %r1, 1024;",
            "add.s64 	%rd5, %rd1, %rd4;",
            "@%p1 cp.async.cg.shared.global [ %r9 + 0 ], [ %rd5 + 0 ], 0x10, %r10;",
            "ld.global.v4.b32 { %r2, %r3, %r4, %r5 }, [ %rd5 + 16 ];",
        )
    )
    assert [tuple(fetch) for fetch in found] == [(1, 4, False), (0, 16, True), (0, 16, False)]


def test_a_pointer_that_a_loop_hands_on_is_followed_around_it(artifact):
    found = artifact("ptx").fetches(
        text(
            "ld.param.b64 	%rd1, [f_param_4];",
            "mov.b64 	%rd2, %rd1;",
            "add.s64 	%rd3, %rd2, 4;",
            "cp.async.ca.shared.global [ %r1 + 0 ], [ %rd3 + 0 ], 0x4, %r2;",
            "mov.b64 	%rd2, %rd3;",
        )
    )
    assert found[0].parameter == 4


@pytest.mark.parametrize("extra", [(), ("ld.param.b64 	%rd2, [f_param_2];",)])
def test_an_address_of_no_parameter_or_of_two_is_an_error(artifact, extra):
    first = ("ld.param.b64 	%rd1, [f_param_1];",) if extra else ()
    lines = (
        *first,
        *extra,
        "add.s64 	%rd3, %rd1, %rd2;",
        "ld.global.b32 { %r1 }, [ %rd3 + 0 ];",
    )
    with pytest.raises(ValueError, match="one was expected"):
        artifact("ptx").fetches(text(*lines))


def test_only_a_wait_inside_the_loop_counts(artifact):
    lines = ["cp.async.wait_group 	9;", "$L__BB0_1:", "cp.async.wait_group 	5;"]
    lines += ["@%p1 bra 	$L__BB0_1;", "cp.async.wait_group 	7;"]
    assert artifact("ptx").wait_depth("\n".join(lines)) == 5
    assert artifact("ptx").wait_depth("\n".join([lines[0], lines[4]])) == 0


def test_a_buffer_is_an_empty_allocation_with_its_number_first(artifact):
    buffers = artifact("compiled").buffers
    ttgir = """
      %kc = ttg.local_alloc : () -> !ttg.memdesc<2x64x512xbf16, #shared, #smem, mutable>
      %kp = ttg.local_alloc : () -> !ttg.memdesc<2x64x64xbf16, #shared, #smem, mutable>
      %w = ttg.local_alloc %x : (tensor<64x512xbf16, #b>) -> !ttg.memdesc<64x512xbf16, #s, #smem>
    """
    assert buffers(ttgir, "64x512xbf16") == 2
    assert buffers(ttgir, "32x512xbf16") == 0


@pytest.mark.parametrize("masks", ["True", "False"])
def test_key_rows_are_copied_sixteen_bytes_at_a_time_and_indices_four_or_eight(code, masks):
    """Masks or not: the narrow copies are all of the list."""
    facts = code["facts"][f"128 3 {masks}"]
    assert (facts["rows_narrowest"], facts["rows_widest"]) == (16, 16)
    assert (facts["list_narrowest"], facts["list_widest"]) == (4, 8)
    assert (facts["rows_loads"], facts["list_loads"]) == (0, 0)
    tiles = facts["rows_asynchronous"] * 16 * 256 / (128 * TILE_ROW_BYTES)
    assert tiles == 2  # one before the loop, one in it: nothing of a tile is left out


def test_the_plan_of_the_report_has_its_shared_memory_and_one_buffer(code):
    facts = code["facts"]["128 3 True"]
    assert facts["shared_bytes"] == 171520
    assert (facts["buffers"], facts["wait_depth"], facts["stack_bytes"]) == (1, 0, 0)


def test_two_stages_are_one_buffer_when_the_index_is_fetched_in_the_loop_too(code):
    """Stages 3 and 4 are the same code; the next buffer comes with stage 5, and waits for less."""
    assert code["same"]
    one, two = code["facts"]["64 3 True"], code["facts"]["64 5 True"]
    assert (one["buffers"], two["buffers"]) == (1, 2)
    assert (one["wait_depth"], two["wait_depth"]) == (0, 5)
    lists = 3 * 4 * 64
    assert two["shared_bytes"] - one["shared_bytes"] == 64 * TILE_ROW_BYTES + lists
    assert code["facts"]["64 1 True"]["buffers"] == 0


def test_rows_that_are_computed_have_a_buffer_a_stage_but_one(code):
    """The control: the loop is the same, and the list that it does not read costs it no buffer."""
    assert code["computed"] == ["ckv", "kpe", "q_nope", "q_pe"]
    found = {
        (metric, sizes["stages"]): value
        for subject, metric, sizes, value in code["control"]
        if subject == "computed rows" and sizes["block"] == 64 and sizes["masks"]
    }
    assert [found["buffers", stages] for stages in (3, 4, 5)] == [2, 3, 4]
    assert [code["facts"][f"64 {stages} True"]["buffers"] for stages in (3, 4, 5)] == [1, 1, 2]
    assert [found["wait_depth", stages] for stages in (3, 4, 5)] == [2, 4, 6]
    assert found["shared_bytes", 5] - found["shared_bytes", 4] == 64 * TILE_ROW_BYTES


def test_five_stages_of_128_rows_do_not_fit_and_of_64_do(code):
    assert code["facts"]["128 5 True"]["fits"] == 0
    assert code["facts"]["64 5 True"]["fits"] == 1


def test_a_kernel_that_stops_after_loading_is_pipelined_otherwise(code):
    """Three stages give it two buffers, which do not fit; two stages give it one."""
    assert code["facts"]["load 3"]["buffers"] == 2
    assert code["facts"]["load 3"]["fits"] == 0
    assert (code["facts"]["load 2"]["buffers"], code["facts"]["load 2"]["fits"]) == (1, 1)


def test_a_dot_or_a_range_of_triton_makes_a_gather_asynchronous(code):
    """num_stages of the launch alone leaves a loop without a dot as it is."""
    rows = {
        way: {(size, asynchronous) for tensor, size, asynchronous in found if tensor == 0}
        for way, found in code["gathers"].items()
    }
    assert rows == {
        "no loop": {(16, False)},
        "range": {(16, False)},
        "tl.range": {(16, True)},
        "range with a dot": {(16, True)},
    }


def test_a_mask_takes_registers_and_with_them_the_second_block(code):
    """Same shared memory; a limit on registers gives the block back."""
    masked, plain = code["facts"]["64 3 True"], code["facts"]["64 3 False"]
    assert masked["shared_bytes"] == plain["shared_bytes"] == code["capped"]["shared_bytes"]
    assert (masked["blocks"], plain["blocks"], code["capped"]["blocks"]) == (1, 2, 2)


def test_a_wave_of_blocks_differs_in_buffers_alone(code):
    buffers = {name: facts["buffers"] for name, facts in code["one wave"].items()}
    assert buffers == {
        "128 rows, 3 stages": 1, "64 rows, 3 stages": 1, "64 rows, 5 stages": 2,
        "32 rows, 3 stages": 1, "32 rows, 5 stages": 2, "32 rows, 7 stages": 3,
    }  # fmt: skip


def test_stopped_after_plain_loads_hardly_any_load_is_under_way(code):
    stopped, whole = code["in flight"]
    assert stopped <= 4
    assert whole >= 24


def test_a_load_is_under_way_until_any_of_its_four_registers_is_named(artifact):
    lines = [
        "/*0010*/ LDG.E.128 R4, desc[UR4][R2.64] ;",
        "/*0020*/ @!P0 LDG.E.128.CONSTANT R8, desc[UR4][R2.64+0x10] ;",
        "/*0030*/ LDG.E R12, desc[UR4][R2.64] ;",
        "/*0040*/ FADD R14, R13, R7 ;",
        "/*0050*/ LDG.E.128 R16, desc[UR4][R2.64] ;",
        "/*0060*/ STS.128 [R20], R8 ;",
    ]
    count = artifact("compiled").loads_in_flight
    assert [count("\n".join(lines[:end])) for end in (0, 1, 2, 5, 6)] == [0, 1, 2, 2, 2]
    assert count("\n".join([*lines[:3], lines[4]])) == 3


@pytest.mark.parametrize(
    ("shared", "registers", "warps", "blocks"),
    [(171520, 164, 8, 1), (169472, 98, 8, 1), (56448, 128, 4, 4), (56448, 129, 4, 3),
     (94976, 128, 8, 2), (94976, 129, 8, 1), (232448, 32, 8, 1), (232449, 32, 8, 0), (0, 8, 8, 8)],
)  # fmt: skip
def test_blocks_fit_by_memory_registers_and_warps(artifact, shared, registers, warps, blocks):
    assert artifact("compiled").blocks_that_fit(shared, registers, warps) == blocks


def test_a_limit_on_registers_leaves_the_answer(artifact):
    dsa, plan = importlib.import_module("shared.dsa"), importlib.import_module("shared.splitk").Plan
    indices = torch.tensor([[5, -1, 7, 8] * 8, [-1] * 32], dtype=torch.int32)
    problem = dsa.problem(indices, seed=1, pages=1)
    capped = artifact("kernel").capped
    output, lse = capped(*problem, plan=plan(block=16, stages=2, splits=2), registers=128)
    expected, sums = dsa.reference(*problem)
    assert (output.double() - expected).norm() <= 1e-2 * expected.norm()
    assert torch.allclose(lse.double(), sums, atol=1e-3)


def test_every_block_stage_and_mask_is_examined(code):
    assert code["swept"] == 3 * 8 * 2


def test_the_parts_at_the_output_make_the_answer(artifact):
    """Weighed by 2^lse, the parts of a list with padding in it are the reference's output."""
    dsa, reference = importlib.import_module("shared.dsa"), artifact("reference")
    indices = torch.tensor([[5, -1, 7, -1, -1, 9, 9, 100]], dtype=torch.int32)
    problem = dsa.problem(indices, seed=1, pages=2)
    values, sums = reference.stopped_parts(*problem, stop="output", splits=2)
    weights = torch.softmax(sums * math.log(2), dim=1)
    output, lse = dsa.reference(*problem)
    assert torch.allclose((values * weights[..., None]).sum(1), output)
    assert torch.allclose(torch.logsumexp(sums * math.log(2), 1) / math.log(2), lse)


@pytest.mark.parametrize("stop", ["load", "scores", "softmax", "output"])
def test_a_stopped_kernel_holds_what_the_reference_says_with_padding_between(artifact, stop):
    dsa, kernel = importlib.import_module("shared.dsa"), artifact("kernel")
    reference, plan = artifact("reference"), importlib.import_module("shared.splitk").Plan
    indices = torch.randint(128, (1, 64), generator=torch.Generator().manual_seed(2)).int()
    indices[0, 3::5] = -1
    problem = dsa.problem(indices, seed=3, pages=2)
    found = kernel.parts(*problem, plan=plan(block=16, stages=2, splits=2, stop=stop))
    expected = reference.stopped_parts(*problem, stop=stop, splits=2)
    for one, two in zip(found, expected, strict=True):
        assert torch.allclose(one.double(), two, rtol=2e-2, atol=2e-2)


def test_one_split_has_no_parts(artifact):
    dsa, plan = importlib.import_module("shared.dsa"), importlib.import_module("shared.splitk").Plan
    problem = dsa.problem(torch.zeros((1, 32), dtype=torch.int32), seed=1, pages=1)
    with pytest.raises(ValueError, match="splits=1 leaves no parts: use two or more"):
        artifact("kernel").parts(*problem, plan=plan(block=32, splits=1))


def test_a_scale_that_is_no_number_is_refused(artifact):
    dsa, plan = importlib.import_module("shared.dsa"), importlib.import_module("shared.splitk").Plan
    problem = dsa.problem(torch.zeros((1, 32), dtype=torch.int32), seed=1, pages=1)
    with pytest.raises(ValueError, match="sm_scale is None: pass a finite int or float"):
        artifact("kernel").parts(*problem._replace(sm_scale=None), plan=plan(block=16, splits=2))


def test_a_gather_refuses_another_list_or_dtype(artifact):
    kernel, rows = artifact("kernel"), torch.zeros((4, 512), dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"use \[lists, 64\]"):
        kernel.gather_sum(rows, torch.zeros((1, 32), dtype=torch.int32), way="range")
    with pytest.raises(ValueError, match="use bfloat16 and int32"):
        kernel.gather_sum(rows, torch.zeros((1, 64), dtype=torch.int64), way="range")
