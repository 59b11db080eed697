"""The kernels as compiled for compute capability 9.0, with or without a GPU, and what their code shows."""

import re
from typing import Any

import gradient
import kernel
import triton
from product import MULTIPROCESSORS, Plan, _multiply, constants
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FLOATS = (
    "parts", "scale", "most", "inverse", "weights", "bands", "row_most", "column_most", "sums",
)  # fmt: skip
CODES = ("codes", "by_row", "by_column")
EXTENTS = (
    "rows", "width", "pitch", "stride", "x_stride", "out_pitch", "row_pitch", "column_pitch", "steps",
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
    options = kernel.row_options(width)
    row, warps = {"BLOCK": options["BLOCK"]}, {"num_warps": options["num_warps"]}
    tile, strip = {"ROWS": 128, "COLUMNS": 64}, {"ROWS": 16, "COLUMNS": 512}
    exact, eight = kernel.EXACT, {"num_warps": 8} | kernel.EXACT
    more = {"num_warps": kernel.row_options(width, 512)["num_warps"]}
    turned, plain = types | {"out": "*i8"}, types | {"out": "*bf16"}
    ternary = {"PARTS": 0, "TRANSPOSED": True, "SCALED": False} | tile
    first = {"PARTS": kernel.PARTS, "TRANSPOSED": False, "SCALED": False} | strip
    bands = {"ROWS": gradient.BAND, "COLUMNS": 256, "STEPS": 0}
    share = {"SCALE": True, "PROGRAMS": 4 * MULTIPROCESSORS} | row
    counted = types | {"count": "fp32"}
    float_count = turned | {"count": "fp32"}
    return {
        "normalise rows": compile_kernel(kernel._normalise_rows, row, counted, **warps, **exact),
        "recode, turned": compile_kernel(kernel._recode_rows, {"TRANSPOSED": True} | tile, turned, **eight),
        "recode": compile_kernel(kernel._recode_rows, {"TRANSPOSED": False} | strip, plain, **eight),
        "sum parts": compile_kernel(kernel._sum_parts, {"STEPS": 8, "BLOCK": 2048}, types),
        "ternarise": compile_kernel(kernel._ternarise, first, float_count, **eight),
        "ternarise, turned": compile_kernel(kernel._ternarise, ternary, float_count, **eight),
        "code rows": compile_kernel(gradient._code_rows, row, types, **warps, **exact),
        "extents": compile_kernel(gradient._extents, bands, types),
        "fold": compile_kernel(gradient._fold, {"BLOCK": 64, "BANDS": 64}, types),
        "code gradient": compile_kernel(gradient._code_gradient, tile, types, **eight),
        "norm backward": compile_kernel(gradient._norm_backward, share, types, **more),
    }  # fmt: skip


def matrix_instructions(code: Any) -> set[str]:
    """Return the kinds of wgmma in a kernel's PTX."""
    return set(re.findall(r"wgmma\.mma_async[\w.]*", code.asm["ptx"]))
