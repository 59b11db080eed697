"""The kernels as compiled for compute capability 9.0, with or without a GPU, and what their code shows."""

import re
from typing import Any

import gradient
import kernel
import norm
import ternary
import triton
from kernel import row_options
from product import MULTIPROCESSORS, Plan, _multiply, constants
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FLOATS = (
    "parts", "scale", "most", "inverse", "weights", "bands", "blocks", "row_most", "column_most", "sums",
)  # fmt: skip
CODES = ("codes", "by_row")
EXTENTS = (
    "rows", "width", "across", "programs", "pitch", "stride", "x_stride", "out_pitch", "row_pitch",
)  # fmt: skip
TARGET = GPUTarget("cuda", 90, 32)


def compile_kernel(
    function: Any, given: dict[str, Any], types: dict[str, str], **options: Any
) -> Any:
    """Compile one kernel for the constants `given`; pointers and extents are multiples of 16."""
    names = list(function.arg_names)
    signature = {name: "constexpr" if name in given else types[name] for name in names}
    kinds = [signature[name] for name in names]
    places = [place for place, kind in enumerate(kinds) if kind == "i32" or kind[0] == "*"]
    aligned = {(place,): [["tt.divisibility", 16]] for place in places}
    found = {(names.index(name),): value for name, value in given.items()}
    return triton.compile(
        ASTSource(function, signature, found, aligned), target=TARGET, options=options
    )


def compile_product(
    plan: Plan, *, bias: bool = False, described: bool = True, kind: str = "bf16"
) -> Any:
    """Compile the product as `multiply` launches it for a plan, with a scale and outputs of a kind."""
    given = constants(plan, scaled=True, bias=bias, described=described)
    given |= {"PROGRAMS": MULTIPROCESSORS if plan.persistent else 0, "STEPS": 0}
    types = dict.fromkeys(("rows", "columns", "reduction", "stride"), "i32") | {"factor": "fp32"}
    types |= dict.fromkeys(("row_scales", "scale"), "*fp32") | {"bias": "*bf16"}
    types["left"] = f"tensordesc<i8[{plan.rows}, {plan.depth}]>"
    types["right"] = f"tensordesc<i8[{plan.columns}, {plan.depth}]>"
    tile = f"tensordesc<{kind}[{plan.rows}, {plan.columns // plan.parts}]>"
    types["out"] = tile if described else f"*{kind}"
    return compile_kernel(_multiply, given, types, num_warps=plan.warps, num_stages=plan.stages)


def compile_others(width: int) -> dict[str, Any]:
    """Compile every kernel but the product, for rows of `width` bf16 elements, by name."""
    types = dict.fromkeys(FLOATS, "*fp32") | dict.fromkeys(CODES, "*i8")
    types |= dict.fromkeys(EXTENTS, "i32")
    types |= dict.fromkeys(("x", "norm", "weight", "gradient", "upstream", "dx"), "*bf16")
    types |= {"epsilon": "fp32", "count": "i32"}
    codes, turned = types | {"out": "*i8", "count": "fp32"}, types | {"words": "*i32"}
    plain, counted = types | {"out": "*bf16", "count": "fp32"}, types | {"count": "fp32"}
    row = row_options(width, norm.SHARE)
    share = {"SCALE": True, "AHEAD": row["num_warps"] < 32}
    first, again = {"PARTS": ternary.PARTS, "SCALED": False}, {"PARTS": 0, "SCALED": False}
    asked = {
        "normalise rows": (kernel._normalise_rows, counted, row_options(width, kernel.SHARE)),
        "recode": (kernel._recode_rows, plain, kernel.STRIP),
        "recode, turned": (kernel._recode_turned, turned, kernel.TURNED),
        "sum parts": (ternary._sum_parts, types, {"STEPS": 8} | ternary.SUM),
        "ternarise": (ternary._ternarise, codes, first | ternary.STRIP),
        "ternarise, bf16": (ternary._ternarise, plain, again | ternary.STRIP),
        "ternarise, turned": (ternary._ternarise_turned, turned, ternary.TURNED),
        "code rows": (gradient._code_rows, types, row_options(width, gradient.SHARE)),
        "extents": (gradient._extents, types, gradient.EXTENT),
        "fold": (gradient._fold, types, gradient.FOLD),
        "code gradient": (gradient._code_gradient, turned, gradient.TURNED),
        "norm backward": (norm._norm_backward, types, share | row),
        "add up": (norm._add_up, plain | {"count": "i32"}, norm.ADD),
    }  # fmt: skip
    exact = {kernel._normalise_rows, kernel._recode_rows, kernel._recode_turned}
    exact |= {ternary._ternarise, ternary._ternarise_turned}
    exact |= {gradient._code_rows, gradient._code_gradient}
    found = {}
    for name, (function, kinds, given) in asked.items():
        options = kernel.EXACT if function in exact else {}
        own = {key: value for key, value in given.items() if key != "num_warps"}
        options = options | {"num_warps": given["num_warps"]}
        found[name] = compile_kernel(function, own, kinds, **options)
    return found


def matrix_instructions(code: Any) -> set[str]:
    """Return the kinds of wgmma in a kernel's PTX."""
    return set(re.findall(r"wgmma\.mma_async[\w.]*", code.asm["ptx"]))
