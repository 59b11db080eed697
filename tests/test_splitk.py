"""The study kernel of sparse attention: right at every edge under every plan, and compiled as it says."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from shared.dsa import CKV, HEADS, LOG2_E, PAGE, problem, reference, wrong_elements
from shared.splitk import Plan, check_plan, splitk

from warplog.measure import error_of

ARTIFACTS = Path(__file__).parents[1] / "artifacts"
PAGES = 2
LAST = PAGES * PAGE - 1
WIDTH = 64
FULL = [(37 * place + 5) % (LAST + 1) for place in range(WIDTH)]
PAD = [-1] * WIDTH
EDGES = {
    "none": PAD,
    "one": [5, *PAD[1:]],
    "one, and last": [*PAD[1:], 5],
    "all": FULL,
    "padding last": FULL[:20] + PAD[20:],
    "padding first": PAD[20:] + FULL[:20],
    "padding between": [row if place % 3 == 1 else -1 for place, row in enumerate(FULL)],
    "a split without a row": FULL[:16] + PAD[16:32] + FULL[32:],
    "rows twice": [9, 8, 9, 9] * 8 + PAD[:32],
    "one row only": [9] * WIDTH,
    "the last row": [LAST, 0, LAST, *PAD[3:]],
}
PLANS = {
    f"{'masks' if masks else 'no masks'}, {splits} splits, {reduction}": Plan(
        block=16, splits=splits, masks=masks, reduction=reduction
    )
    for masks in (True, False)
    for splits, reduction in ((1, "kernel"), (4, "kernel"), (4, "last"))
}


def given(rows, seed=1):
    return problem(torch.tensor(rows, dtype=torch.int32), seed, pages=PAGES)


@pytest.fixture(scope="module")
def edges():
    """Every edge as a token of its own, and the reference's answer."""
    found = given(list(EDGES.values()))
    return found, reference(*found)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_every_edge_is_right_under_every_plan(edges, plan):
    """All tokens in one call, so that none reaches another's splits, counters or outputs."""
    asked, (expected, sums) = edges
    before = [each.clone() for each in asked[:5]]
    output, lse = splitk(*asked, plan=plan)
    assert (output.dtype, lse.dtype) == (torch.bfloat16, torch.float32)
    for token, edge in enumerate(EDGES):
        assert wrong_elements(output[token], expected[token]) == 0, edge
        assert wrong_elements(lse[token], sums[token]) == 0, edge
    error = error_of((output, lse), (expected, sums), exact=False)
    assert error < 5e-3
    assert all(torch.equal(*pair) for pair in zip(before, asked[:5], strict=True))


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_token_without_a_row_is_exactly_zero_and_minus_infinity(plan):
    output, lse = splitk(*given([PAD]), plan=plan)
    assert not output.any()
    assert (lse == -math.inf).all()


@pytest.mark.parametrize("reduction", ["kernel", "last"])
def test_masks_read_no_row_that_is_not_listed(reduction):
    """Row 0 stands in for padding where there are no masks; with them it may hold anything."""
    asked = given([EDGES["one"], EDGES["one, and last"], EDGES["none"]])
    for cache in asked[2:4]:
        flat = cache.flatten(0, 1)
        kept = flat[5].clone()
        flat.fill_(math.nan)
        flat[5] = kept
    found = splitk(*asked, plan=Plan(block=16, splits=4, reduction=reduction))
    assert error_of(found, reference(*asked), exact=False) < 5e-3


def test_the_program_that_comes_last_can_be_called_again():
    """Its counter starts from zero each time: two calls agree bit for bit."""
    asked = given([FULL, EDGES["padding last"]])
    plan = Plan(block=16, splits=4, reduction="last")
    one, other = splitk(*asked, plan=plan), splitk(*asked, plan=plan)
    assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


@pytest.mark.parametrize("plan", [Plan(block=32, splits=1), Plan(block=64, splits=1, stages=3)])
def test_larger_blocks_are_right_too(plan):
    asked = given([FULL, EDGES["padding first"]])
    assert error_of(splitk(*asked, plan=plan), reference(*asked), exact=False) < 5e-3


def logits_of(asked):
    """Base-2 logits of each token's rows: one tensor [heads, rows] a token."""
    found = []
    for token, listed in enumerate(asked.sparse_indices.long()):
        rows = listed[listed >= 0]
        kc = asked.ckv_cache.flatten(0, 1)[rows].double()
        kp = asked.kpe_cache.flatten(0, 1)[rows].double()
        plain = asked.q_nope[token].double() @ kc.mT + asked.q_pe[token].double() @ kp.mT
        found.append(plain * asked.sm_scale * LOG2_E)
    return found


def near(found, expected):
    """Return whether a bf16 tensor holds `expected` to its eight bits."""
    return torch.allclose(found.double(), expected, rtol=8e-3, atol=1e-2)


@pytest.mark.parametrize("masks", [True, False])
def test_stopping_after_the_load_gives_the_sum_of_what_was_loaded(masks):
    """Every number that was loaded is in it, so that no load can be left out; row 0 for padding."""
    asked = given([FULL, EDGES["padding last"]])
    output, lse = splitk(*asked, plan=Plan(block=16, splits=1, masks=masks, stop="load"))
    for token, listed in enumerate(asked.sparse_indices.long()):
        rows = listed[listed >= 0] if masks else listed.clamp(min=0)
        kc = asked.ckv_cache.flatten(0, 1)[rows].double().sum(0)
        kp = asked.kpe_cache.flatten(0, 1)[rows].double().sum()
        assert near(output[token], (kc + kp).expand(HEADS, CKV))
    assert (lse == -math.inf).all()


def test_stopping_after_the_scores_gives_their_sum():
    asked = given([FULL, EDGES["padding between"]])
    output, lse = splitk(*asked, plan=Plan(block=16, splits=1, stop="scores"))
    for token, logits in enumerate(logits_of(asked)):
        assert near(output[token], logits.sum(1)[:, None].expand(HEADS, CKV))
    assert (lse == -math.inf).all()


def test_stopping_after_the_softmax_gives_its_sum_and_its_maximum():
    asked = given([FULL, EDGES["padding between"]])
    output, lse = splitk(*asked, plan=Plan(block=16, splits=1, stop="softmax"))
    for token, logits in enumerate(logits_of(asked)):
        most = logits.max(1).values
        assert torch.allclose(lse[token].double(), most, rtol=1e-5, atol=1e-4)
        total = torch.exp2(logits - most[:, None]).sum(1)
        assert near(output[token], total[:, None].expand(HEADS, CKV))


@pytest.mark.parametrize("reduction", ["kernel", "last"])
@pytest.mark.parametrize("stop", ["load", "scores"])
def test_splits_that_stop_before_the_softmax_have_no_weight(stop, reduction):
    """Their sums are minus infinity, so the reduction writes zero: a time, and no answer."""
    plan = Plan(block=16, splits=4, stop=stop, reduction=reduction)
    output, lse = splitk(*given([FULL]), plan=plan)
    assert not output.any()
    assert (lse == -math.inf).all()


@pytest.mark.parametrize("reduction", ["kernel", "last"])
def test_splits_that_stop_after_the_softmax_are_weighed_by_their_maxima(reduction):
    plan = Plan(block=16, splits=4, stop="softmax", reduction=reduction)
    asked = given([FULL])
    output, lse = splitk(*asked, plan=plan)
    parts = logits_of(asked)[0].unflatten(1, (4, WIDTH // 4))
    most = parts.max(2).values
    totals = torch.exp2(parts - most[..., None]).sum(2)
    weights = torch.softmax(most * math.log(2), dim=1)
    assert near(output[0], (weights * totals).sum(1)[:, None].expand(HEADS, CKV))
    sums = torch.logsumexp(most * math.log(2), dim=1) * LOG2_E
    assert torch.allclose(lse[0].double(), sums, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("plan", "width", "message"),
    [
        (Plan(block=48), 2048, "block=48: use a power of two"),
        (Plan(block=0), 2048, "block=0: use a power of two"),
        (Plan(block=-16), 2048, "block=-16: use a power of two"),
        (Plan(block=8), 2048, "block=8: a matrix instruction needs 16 rows or more"),
        (Plan(splits=3), 2048, "splits=3: use a power of two"),
        (Plan(splits=0), 2048, "splits=0: use a power of two"),
        (Plan(warps=6), 2048, "warps=6: use a power of two"),
        (
            Plan(block=64, splits=64),
            2048,
            "splits=64 of block=64 do not divide a list of 2048: use up to 32 splits",
        ),
        (Plan(block=16, splits=2), 80, "do not divide a list of 80"),
        (Plan(reduction="first"), 2048, "reduction='first': use one of kernel, last"),
        (Plan(stop="end"), 2048, "stop='end': use one of load, scores, softmax, output"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(plan, width, message):
    with pytest.raises(ValueError, match=r".") as caught:
        check_plan(plan, width)
    assert message in str(caught.value)


def test_a_plan_that_fits_is_taken():
    for plan in (Plan(), Plan(block=16, splits=128), Plan(block=2048, splits=1)):
        assert check_plan(plan, 2048) is None


def test_what_the_definition_refuses_the_kernel_refuses():
    asked = given([FULL])
    with pytest.raises(ValueError, match="kpe_cache has strides"):
        splitk(*asked._replace(kpe_cache=asked.kpe_cache.mT.contiguous().mT), plan=Plan(block=16))
    with pytest.raises(ValueError, match="do not divide a list of 64"):
        splitk(*asked, plan=Plan(block=64, splits=8))
    with pytest.raises(ValueError, match="sm_scale is None"):
        splitk(*asked._replace(sm_scale=None), plan=Plan(block=16))


COMPILE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from shared import splitk

POINTERS = {
    "partial": "*fp32", "partial_lse": "*fp32", "output": "*bf16", "lse": "*fp32",
    "q_nope": "*bf16", "q_pe": "*bf16", "ckv": "*bf16", "kpe": "*bf16", "indices": "*i32",
    "arrived": "*i32", "scale": "fp32",
}

def build(kernel, constants, warps):
    signature = {
        name: "constexpr" if name in constants else POINTERS[name] for name in kernel.arg_names
    }
    places = [place for place, kind in enumerate(signature.values()) if kind[0] == "*"]
    attrs = {(place,): [["tt.divisibility", 16]] for place in places}
    source = triton.compiler.ASTSource(kernel, signature, constants, attrs)
    code = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    return code.asm["ptx"]

sizes = {"HEADS": 16, "CKV": 512}
found = {}
for stages in (1, 2):
    for last in (False, True):
        constants = sizes | {
            "WIDTH": 2048, "SPLITS": 8, "BLOCK": 32, "STAGES": stages, "MASKS": True, "LAST": last,
            "STOP": 3, "KPE": 64, "OPERAND": tl.bfloat16,
        }
        found[f"stages={stages} last={last}"] = build(splitk._split, constants, 4)
found["reduce"] = build(splitk._reduce, sizes | {"SPLITS": 8, "SLICE": 128}, 4)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def ptx(tmp_path_factory):
    """The kernels as Triton compiles them for an H200; a process of its own, without interpreter."""
    own = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    own |= {"TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))}
    words = [sys.executable, "-c", COMPILE, str(ARTIFACTS)]
    done = subprocess.run(words, capture_output=True, text=True, env=own, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_products_are_matrix_instructions_on_bf16(ptx):
    for name in (name for name in ptx if name != "reduce"):
        found = [line for line in ptx[name].splitlines() if "mma" in line and "bf16" in line]
        assert any(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in line for line in found
        ), name
        assert "f32.tf32.tf32" not in ptx[name]


def test_rows_are_fetched_asynchronously_from_two_stages_on(ptx):
    for last in (False, True):
        assert "cp.async" in ptx[f"stages=2 last={last}"]
        assert "cp.async" not in ptx[f"stages=1 last={last}"]


def test_the_program_that_comes_last_says_what_it_wrote_before_it_counts(ptx):
    for stages in (1, 2):
        assert "atom.global.gpu.acq_rel.add.u32" in ptx[f"stages={stages} last=True"]
        assert "atom." not in ptx[f"stages={stages} last=False"]
