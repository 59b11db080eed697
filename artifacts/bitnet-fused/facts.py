"""Facts of a step that are not times: the instructions of the product, and the kernels of each layer."""

from functools import partial

import product
from compiled import compile_product
from peers import Bf16, Called, assembled, torchao_int8, torchao_layer, torchao_or_none
from workloads import drawn, ours, sizes_of


def generated_code(run):
    """Count integer matrix instructions, tensor copies and spills of the product's large plan."""
    run.profile(
        "int8 product",
        code=compile_product(product.plan_for(8192, 4096, 4096)).asm["cubin"],
        counters=["sass:IGMMA", "sass:UTMALDG", "sass:UTMASTG", "sass:STL", "sass:LDL"],
        plan="large",
    )


def launched(run, shape):
    """Count the kernels of a step, run eagerly, and torchao's own products among them."""
    given, what = drawn(run, shape, run.seed), {"operation": "step", **sizes_of(shape)}
    makers = {"bf16": partial(assembled, Bf16), "tier 1": ours(1), "tier 3": ours(3)}
    torchao = torchao_or_none()
    if torchao:
        makers["torchao"] = torchao_layer(torchao.bitnet_training())
        makers["torchao int8"] = torchao_int8
        makers["torchao int8, as it comes"] = torchao_layer(torchao.int8_mixed_precision_training())
    for name, make in makers.items():
        found = run.launches(Called(make).prepared(*given))
        run.count("kernels", len(found), unit="kernels", subject=name, **what)
        if "torchao" in name:
            own = sum("_scaled_int8_mm_kernel" in each.name for each in found)
            run.count("triton_products", own, unit="kernels", subject=name, **what)
