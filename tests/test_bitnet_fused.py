"""The fused BitNet layer: right at every edge, a citizen of PyTorch, and compiled for sm_90 as it says."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from borrowed import modules_of

from warplog.measure import error_of

FOLDER = Path(__file__).parents[1] / "artifacts" / "bitnet-fused"
ROOT = FOLDER.parents[1]
SHAPES = [(19, 33, 17), (16, 16, 16), (1, 1, 1), (5, 1, 3), (3, 130, 35)]
TOLERANCE = {torch.bfloat16: 1.3e-2, torch.float16: 2e-3, torch.float32: 2e-6}
INT8_GRADIENT = 1.3e-2  # half a step of 127, against a largest of three to four deviations


@pytest.fixture(scope="module")
def artifact():
    """The artifact's modules, taken away afterwards: others are called kernel, too."""
    with modules_of(FOLDER.name) as load:
        yield load


def drawn(shape, dtype=torch.float32, seed=1):
    """Activations, weight, norm and upstream gradient."""
    tokens, inputs, outputs = shape
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, inputs, generator=generator)
    weight = torch.randn(outputs, inputs, generator=generator) * 0.02
    norm = torch.rand(inputs, generator=generator) + 0.5
    upstream = torch.randn(tokens, outputs, generator=generator)
    return tuple(each.to(dtype) for each in (x, weight, norm, upstream))


def made(artifact, weight, norm, *, bias=None, tier=1, forced=True):
    """A layer with these weights."""
    outputs, inputs = weight.shape
    options = {"bias": bias is not None, "tier": tier, "forced": forced, "dtype": weight.dtype}
    layer = artifact("layer").BitLinear(inputs, outputs, **options)
    state = {"weight": weight, "input_norm.weight": norm} | ({} if bias is None else {"bias": bias})
    layer.load_state_dict(state)
    return layer


def stepped(layer, x, upstream):
    """Outputs and gradients of one step: y, dx, dnorm, dW."""
    x = x.detach().requires_grad_()
    y = layer(x)
    wanted = (x, layer.input_norm.weight, layer.weight)
    return y.detach(), *torch.autograd.grad(y, wanted, upstream)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_outputs_are_those_of_float64_on_the_same_codes(artifact, shape, dtype):
    x, weight, norm, _ = drawn(shape, dtype)
    y = made(artifact, weight, norm)(x).detach()
    expected = artifact("reference").forward(x, weight, norm)
    assert y.dtype == dtype
    assert error_of((y,), (expected,), exact=False) < TOLERANCE[dtype]


@pytest.mark.parametrize("tier", [1, 2, 3])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[1] > 1], ids=str)
def test_gradients_are_those_of_float64_on_the_same_codes(artifact, shape, tier):
    """Tier 1 to float32's bits; what tiers 2 and 3 make int8 is off by no more than its half steps."""
    x, weight, norm, upstream = drawn(shape)
    found = stepped(made(artifact, weight, norm, tier=tier), x, upstream)
    expected = artifact("reference").step(x, weight, norm, upstream)
    limits = [2e-6, *([2e-6] * 2 if tier == 1 else [INT8_GRADIENT] * 2)]
    limits += [INT8_GRADIENT if tier == 3 else 2e-6]
    for one, other, limit in zip(found, expected, limits, strict=True):
        assert error_of((one,), (other,), exact=False) < limit


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("tier", [1, 3])
def test_gradients_in_16_bits_are_within_their_rounding(artifact, tier, dtype):
    given = drawn(SHAPES[0], dtype)
    x, weight, norm, upstream = given
    found = stepped(made(artifact, weight, norm, tier=tier), x, upstream)
    expected = artifact("reference").step(*given)
    assert all(each.dtype == dtype for each in found)
    assert error_of(found, expected, exact=False) < INT8_GRADIENT


@pytest.mark.parametrize("tier", [1, 2, 3])
def test_no_token_gives_no_output_and_gradients_of_zero(artifact, tier):
    x, weight, norm, upstream = drawn((0, 33, 17))
    y, dx, dnorm, dweight = stepped(made(artifact, weight, norm, tier=tier), x, upstream)
    assert y.shape == (0, 17)
    assert dx.shape == (0, 33)
    assert not dnorm.any()
    assert not dweight.any()


@pytest.mark.parametrize("view", ["rows apart", "transposed", "every second column"])
def test_an_input_may_lie_in_memory_as_it_likes(artifact, view):
    x, weight, norm, upstream = drawn(SHAPES[0])
    lain = {
        "rows apart": lambda: torch.cat([x, x + 1], 1)[:, :33],
        "transposed": lambda: x.t().contiguous().t(),
        "every second column": lambda: torch.stack([x, x + 1], 2).flatten(1)[:, ::2],
    }[view]()
    assert torch.equal(lain, x)
    assert lain.stride() != x.stride()
    layer = made(artifact, weight, norm, tier=3)
    for one, other in zip(stepped(layer, lain, upstream), stepped(layer, x, upstream), strict=True):
        assert torch.equal(one, other)


def test_leading_dimensions_are_kept_and_a_bias_is_added_before_rounding(artifact):
    x, weight, norm, _ = drawn((12, 33, 17))
    bias = torch.randn(17)
    layer = made(artifact, weight, norm, bias=bias)
    y = layer(x.view(2, 3, 2, 33))
    y.sum().backward()
    assert y.shape == (2, 3, 2, 17)
    expected = artifact("reference").forward(x, weight, norm) + bias.double()
    assert error_of((y.detach().view(12, 17),), (expected,), exact=False) < 2e-6
    assert torch.equal(layer.bias.grad, torch.full((17,), 12.0))


def test_a_product_of_codes_is_exact_at_every_edge_of_its_tiles(artifact):
    """The largest codes too: an int8 sum that was kept in int8 or int16 would wrap."""
    product = artifact("product")
    for rows, columns, depth in [(1, 1, 1), (33, 31, 32), (32, 65, 97), (70, 8, 16)]:
        pitch = artifact("kernel").padded(depth)
        generator = torch.Generator().manual_seed(depth)
        options = {"generator": generator, "dtype": torch.int8}
        left = torch.randint(-128, 128, (rows, pitch), **options)
        right = torch.randint(-128, 128, (columns, pitch), **options)
        left[0] = right[0] = -128
        ones = torch.ones(rows)
        found = product.multiply(left, right, depth, ones, dtype=torch.float32, factor=1.0)
        expected = left[:, :depth].long() @ right[:, :depth].long().t()
        assert torch.equal(found.long(), expected)


def test_a_reduction_that_could_overflow_is_refused(artifact):
    codes = torch.zeros((1, 16), dtype=torch.int8)
    with pytest.raises(ValueError, match="may overflow int32: use up to 131072"):
        artifact("product").multiply(
            codes, codes, 131_073, torch.ones(1), dtype=torch.float32, factor=1.0
        )
    assert 131_072 * 128 * 127 < 2**31


@pytest.mark.parametrize("width", [1, 35, 128, 300])
def test_codes_are_those_of_the_definition_and_padding_is_zero(artifact, width):
    kernel, reference = artifact("kernel"), artifact("reference")
    x, weight, norm, _ = drawn((6, width, 9))
    codes, most, _ = kernel.rows_to_codes(x, norm, reference.EPSILON)
    expected, step = reference.activation_codes(x, norm)
    assert codes.shape == (6, kernel.padded(width))
    assert torch.equal(codes[:, :width].double(), expected)
    assert not codes[:, width:].any()
    assert torch.allclose(most.double()[:, None] / 127, step, rtol=1e-6)
    codes, scale = artifact("ternary").weight_to_codes(weight)
    expected, size = reference.weight_codes(weight)
    assert torch.equal(codes[:, :width].double(), expected)
    assert not codes[:, width:].any()
    assert scale.item() == pytest.approx(size.item(), rel=1e-6)


def test_halves_round_to_even_and_a_half_of_the_scale_to_zero(artifact):
    """The absmean of these is 1, so that a weight is its own ratio."""
    weight = torch.tensor([[0.5, -0.5, 1.5, -1.5, 2.5, -0.5, 0.5, 0.5]])
    assert weight.abs().mean() == 1
    codes, scale = artifact("ternary").weight_to_codes(weight)
    assert scale.item() == 1
    assert codes[0, :8].tolist() == [0, 0, 1, -1, 1, 0, 0, 0]


def test_a_weight_beside_a_half_of_the_scale_rounds_as_their_quotient_does(artifact):
    """The kernel compares and does not divide: neighbours of the half must fall as they would."""
    scale = torch.rand(512, generator=torch.Generator().manual_seed(3)) * 0.02 + 0.01
    for each in scale[:40]:
        half = each / 2
        far, near = half.new_tensor(1.0), half.new_tensor(0.0)
        weight = torch.stack([half, half.nextafter(far), half.nextafter(near)])
        weight = torch.cat([weight, -weight])[None]
        found = artifact("ternary").weight_again(weight, each[None], torch.float32, scaled=False)
        assert torch.equal(found, (weight / each).round().clamp(-1, 1))


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_a_weight_that_is_no_number_stays_visible(artifact):
    x, weight, norm, _ = drawn(SHAPES[0])
    weight[2, 3] = math.nan
    assert not made(artifact, weight, norm)(x).isfinite().any()


def test_codes_made_again_for_the_backward_pass_are_the_same(artifact):
    kernel = artifact("kernel")
    x, weight, norm, _ = drawn((70, 67, 9))
    codes, most, inverse = kernel.rows_to_codes(x, norm, 1e-5)
    again = kernel.recoded(x, norm, most, inverse, torch.int8)
    assert torch.equal(again[:, :70], codes[:, :67].t())
    assert not again[:, 70:].any()
    scaled = kernel.recoded(x, norm, most, inverse, torch.float32)
    assert torch.equal(scaled, codes[:, :67].float() * (most / 127)[:, None])
    ternary, scale = artifact("ternary").weight_to_codes(weight)
    again = artifact("ternary").weight_again(weight, scale, torch.int8, scaled=False)
    assert torch.equal(again[:, :9], ternary[:, :67].t())


def test_a_row_of_zeros_and_a_weight_of_zeros_divide_by_nothing(artifact):
    x, weight, norm, upstream = drawn(SHAPES[0])
    x[3] = 0
    for tier in (1, 3):
        found = stepped(made(artifact, weight, norm, tier=tier), x, upstream)
        assert all(each.isfinite().all() for each in found)
        assert not found[0][3].any()
        found = stepped(made(artifact, weight * 0, norm, tier=tier), x, upstream * 0)
        assert not any(each.any() for each in found)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("tier", [1, 2, 3])
def test_what_is_not_finite_stays_visible(artifact, bad, tier):
    """A loss scaler must see it, and an int8 code cannot hold it."""
    x, weight, norm, upstream = drawn(SHAPES[0])
    layer = made(artifact, weight, norm, tier=tier)
    upstream[2, 3] = bad
    _, dx, _, dweight = stepped(layer, x, upstream)
    assert not dx[2].isfinite().all()
    assert not dweight[3].isfinite().all()
    x[4, 1] = bad
    assert not layer(x)[4].isfinite().any()


def test_a_scale_has_the_same_bits_each_time(artifact):
    weight = drawn((1, 131, 77))[1]
    first = artifact("layer").ternarise(weight)
    for _ in range(3):
        assert all(map(torch.equal, first, artifact("layer").ternarise(weight)))


def test_the_state_is_that_of_a_linear_layer_with_a_norm(artifact):
    bits = artifact("layer").BitLinear(33, 17)
    plain = artifact("peers").Bf16(33, 17)
    plain.load_state_dict(bits.state_dict())
    bits.load_state_dict(plain.state_dict())
    assert list(bits.state_dict()) == ["weight", "input_norm.weight"]
    x = drawn(SHAPES[0])[0]
    assert torch.equal(bits(x), made(artifact, plain.weight, plain.input_norm.weight)(x))


@pytest.mark.parametrize(
    "change", ["optimiser", "fused", "in place", "loaded", "moved", "forgotten"]
)
def test_codes_are_remembered_until_the_weight_changes(artifact, change, monkeypatch):
    x, weight, norm, _ = drawn(SHAPES[0])
    layer = made(artifact, weight, norm)
    made_anew, module = [], artifact("layer")
    plain = module.ternarise
    monkeypatch.setattr(module, "ternarise", lambda given: made_anew.append(1) or plain(given))
    for _ in range(2):
        layer(x)
    assert len(made_anew) == 1
    if change in ("optimiser", "fused"):
        layer(x).sum().backward()
        options = {"fused": True} if change == "fused" else {}
        torch.optim.AdamW(layer.parameters(), lr=0.1, **options).step()
    elif change == "in place":
        with torch.no_grad():
            layer.weight.neg_()
    elif change == "loaded":
        layer.load_state_dict({"weight": -weight, "input_norm.weight": norm})
    elif change == "moved":
        layer.weight = torch.nn.Parameter(-weight)
    else:
        layer.weight.data.neg_()
        layer.forget()
    y = layer(x).detach()
    assert len(made_anew) == 2
    norm = layer.input_norm.weight.detach()
    expected = artifact("reference").forward(x, layer.weight.detach(), norm)
    assert error_of((y,), (expected,), exact=False) < 2e-6


@pytest.mark.parametrize("where", ["captured", "no gradients"])
def test_codes_are_not_remembered_where_a_replay_could_change_the_weight(
    artifact, where, monkeypatch
):
    """A CUDA graph that holds the optimiser's step changes weights and tells nobody."""
    x, weight, norm, _ = drawn(SHAPES[0])
    layer, module = made(artifact, weight, norm), artifact("layer")
    if where == "captured":
        with monkeypatch.context() as patched:
            patched.setattr(module, "_capturing", lambda _: True)
            layer(x)
    for sign in (1, -1):
        layer.weight.data.copy_(sign * weight)
        with torch.set_grad_enabled(where == "captured"):
            y = layer(x).detach()
        expected = artifact("reference").forward(x, sign * weight, norm)
        assert error_of((y,), (expected,), exact=False) < 2e-6


def test_it_compiles_into_one_graph_forward_and_backward(artifact):
    """With fullgraph, a break raises; the graph holds the making of the codes."""
    given = drawn(SHAPES[0])
    x, weight, norm, upstream = given
    layer = made(artifact, weight, norm, tier=3)
    expected = stepped(layer, x, upstream)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=False)
    x = x.requires_grad_()
    y = compiled(x)
    found = torch.autograd.grad(y, (x, layer.input_norm.weight, layer.weight), upstream)
    for one, other in zip((y, *found), expected, strict=True):
        assert torch.equal(one, other)
    with torch.no_grad():
        layer.weight.neg_()
    assert torch.equal(compiled(x), layer(x))


@pytest.mark.parametrize("tier", [1, 3])
def test_the_operators_pass_the_checks_of_the_library(artifact, tier):
    """Schema, fake tensors, autograd registration and tracing with AOT dispatch."""
    layer = artifact("layer")
    x, weight, norm, _ = drawn((6, 20, 9))
    codes, scale = layer.ternarise(weight)
    given = (x.requires_grad_(), weight.requires_grad_(), norm.requires_grad_(), None, codes, scale)
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(layer.linear, (*given, tier, 1e-5), test_utils=tests)
    torch.library.opcheck(layer.linear, (*given[:4], None, None, tier, 1e-5), test_utils=tests)
    torch.library.opcheck(layer.ternarise, (weight.detach(),), test_utils=tests)


def test_a_checkpoint_recomputes_the_same(artifact):
    from torch.utils.checkpoint import checkpoint

    x, weight, norm, upstream = drawn(SHAPES[0])
    layer = made(artifact, weight, norm, tier=3)
    expected = stepped(layer, x, upstream)
    x = x.requires_grad_()
    y = checkpoint(layer, x, use_reentrant=False)
    found = torch.autograd.grad(y, (x, layer.input_norm.weight, layer.weight), upstream)
    for one, other in zip((y, *found), expected, strict=True):
        assert torch.equal(one, other)


def test_under_autocast_it_computes_in_autocasts_type_and_gives_gradients_in_the_weights(artifact):
    x, weight, norm, _ = drawn(SHAPES[0])
    layer = made(artifact, weight, norm, tier=3)
    x = x.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    y.float().sum().backward()
    assert y.dtype == torch.bfloat16
    assert {x.grad.dtype, layer.weight.grad.dtype, layer.input_norm.weight.grad.dtype} == {
        torch.float32
    }


def test_only_the_gradients_that_are_wanted_are_made(artifact):
    x, weight, norm, upstream = drawn(SHAPES[0])
    for tier in (1, 2, 3):
        layer = made(artifact, weight, norm, tier=tier)
        _, dx, dnorm, dweight = stepped(layer, x, upstream)
        (alone,) = torch.autograd.grad(layer(x), layer.weight, upstream)
        assert torch.equal(alone, dweight)
        layer.requires_grad_(requires_grad=False)
        inputs = x.detach().requires_grad_()
        (alone,) = torch.autograd.grad(layer(inputs), inputs, upstream)
        assert torch.equal(alone, dx)
        assert dnorm.any()


def test_a_backward_pass_keeps_x_and_little_else(artifact):
    x, weight, norm, _ = drawn((64, 256, 48), torch.bfloat16)
    layer = made(artifact, weight, norm, tier=3)
    kept = artifact("memory").saved_bytes(layer, layer, x)
    assert kept == x.numel() * 2 + 2 * 4 * 64 + 4


@pytest.mark.parametrize(
    ("asked", "size", "forced", "tier"),
    [
        (1, (2**17, 2**13, 2**13), False, 1),
        (3, (16384, 8192, 8192), False, 3),
        (3, (16, 16, 16), False, 1),
        (3, (16, 16, 16), True, 3),
        (3, (2**17 + 1, 4096, 4096), True, 2),
        (3, (4096, 2**17 + 1, 4096), True, 1),
        (2, (16384, 8192, 8192), False, 2),
    ],
)
def test_a_tier_falls_back_where_it_does_not_pay_or_could_overflow(
    artifact, asked, size, forced, tier
):
    assert artifact("layer").tier_for(asked, *size, forced=forced) == tier


def test_another_tier_is_refused(artifact):
    with pytest.raises(ValueError, match="tier=4: use 1, 2 or 3"):
        artifact("layer").BitLinear(4, 4, tier=4)


def test_a_row_too_wide_for_a_program_is_refused(artifact):
    with pytest.raises(
        ValueError, match="x has 65537 columns: a program owns a row of up to 65536"
    ):
        artifact("kernel").rows_to_codes(torch.ones(1, 65537), torch.ones(65537), 1e-5)


@pytest.mark.parametrize("kind", ["Naive", "RoundOnly"])
def test_peers_do_the_same_forward(artifact, kind):
    x, weight, norm, _ = drawn(SHAPES[0])
    peers = artifact("peers")
    y = peers.assembled(getattr(peers, kind), weight, norm)(x).detach()
    assert error_of((y,), (artifact("reference").forward(x, weight, norm),), exact=False) < 1e-2


def test_where_only_rounding_is_straight_through_gradients_are_the_references(artifact):
    """In float32, and where no two elements of a row are equally large."""
    given = drawn((64, 96, 40))
    peers, reference = artifact("peers"), artifact("reference")
    found = stepped(peers.assembled(peers.RoundOnly, *given[1:3]), given[0], given[3])
    expected = reference.round_only_step(*given)
    assert error_of(found, expected, exact=False) < 2e-5


def test_of_two_equally_large_elements_the_last_bit_says_which_takes_the_scales_gradient(artifact):
    """Why the tolerance of that peer is wider: float64 and float32 may disagree, and all is right."""
    x, weight, norm, upstream = drawn((4, 4096, 40))
    x[:, 7], x[:, 9], norm[7], norm[9] = 6.0, 5.0, 1.25, 1.5
    reference = artifact("reference")
    errors = []
    for nudge in (1e-6, -1e-6):
        nudged = x.double()
        nudged[:, 7] += nudge
        errors.append(reference.round_only_step(nudged, weight, norm, upstream)[1])
    error = error_of(errors[:1], errors[1:], exact=False)
    assert 5e-3 < error < artifact("reproduce").TIED
    assert error_of((errors[0][:, 10:],), (errors[1][:, 10:],), exact=False) < 1e-5


def test_y_of_a_steps_reference_is_kept_for_the_forward_pass_by_seed(artifact):
    """The same as the reference of the forward pass says, and not another seed's."""
    workloads, reference = artifact("workloads"), artifact("reference")
    cases = workloads.Cases(SimpleNamespace(device=torch.device("cpu")), (6, 20, 9))
    step, forward = cases.stepping(reference.step), cases.passing(reference.step)
    kept = {seed: step(*cases.inputs(seed))[0] for seed in (1, 2)}
    for seed in (1, 2):
        given = cases.with_codes(seed)
        assert forward(*given) is kept[seed]
        assert torch.equal(kept[seed], reference.forward(*given[:3]))
    assert torch.equal(forward(*cases.inputs(3)), reference.forward(*cases.inputs(3)[:3]))


def test_a_forward_pass_with_the_codes_at_hand_is_the_forward_pass(artifact):
    workloads = artifact("workloads")
    cases = workloads.Cases(SimpleNamespace(device=torch.device("cpu")), (6, 20, 9))
    given = cases.with_codes(1)
    fused = workloads.Called(workloads.ours(1), step=False)
    assert torch.equal(workloads.Known()(*given), fused(*given))


def test_under_nsight_compute_only_what_it_counts_runs(artifact, monkeypatch):
    """Everything else takes minutes there and is not kept."""
    reproduce, counted = artifact("reproduce"), []
    monkeypatch.setattr(reproduce, "counted", lambda _, shape: counted.append(shape))
    reproduce.reproduce(SimpleNamespace(counting=True))
    assert counted == [(16384, 8192, 8192)]


AHEAD = """
import sys
sys.path[:0] = sys.argv[1:4]
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import JITFunction, driver

class Driver:
    def get_current_target(self): return GPUTarget("cuda", 90, 32)
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0
    def is_active(self): return True

driver.set_active(Driver())
import kernel, norm, product, ternary
kernel.check_device = ternary.check_device = lambda x: None
product.multiprocessors = norm.multiprocessors = lambda device: 132
import ahead
from peers import Called
from workloads import drawn, ours

class Run: device = torch.device("cpu")

def step():
    Called(ours(3, forced=True)).prepared(*drawn(Run, (48, 64, 32), 1))()

with ahead.compiling():
    step()
compiled, launched = [], []
JITFunction._do_compile = lambda kernel, *_: compiled.append(kernel.fn.__name__)

class Kernel:
    function = packed_metadata = None
    def launch_metadata(self, *_): pass
    def run(self, *_): launched.append(1)

functions = {each for module in (kernel, norm, product, ternary, ahead.product, sys.modules["gradient"])
             for each in vars(module).values() if isinstance(each, JITFunction)}
for function in functions:
    known = function.device_caches[0][0]
    known.update(dict.fromkeys(known, Kernel()))
step()
print(len(launched), *compiled)
"""


def test_what_is_compiled_ahead_is_not_compiled_again_and_is_launched_only_then():
    """With a driver that says sm_90 and has no GPU, in a process of its own."""
    words = [sys.executable, "-c", AHEAD, str(FOLDER), str(FOLDER.parent), str(ROOT)]
    own = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(words, capture_output=True, text=True, env=own, check=False)
    assert done.returncode == 0, done.stderr
    launched, *compiled = done.stdout.split()
    assert int(launched) >= 12
    assert compiled == []


def test_the_reference_agrees_with_autograd_in_float64(artifact):
    """Its norm's gradients are written by hand; here autograd finds them."""
    x, weight, norm, upstream = (each.double() for each in drawn(SHAPES[0]))
    reference = artifact("reference")
    leaves = [each.requires_grad_() for each in (x, norm, weight)]
    y = reference.normalised(x, norm) @ weight.t()
    found = torch.autograd.grad(y, leaves, upstream)
    expected = reference.plain_step(x.detach(), weight.detach(), norm.detach(), upstream)
    for one, other in zip((y.detach(), *found), expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-6, atol=1e-9)


def test_the_text_is_the_same_for_everyone_and_must_be_remembered(artifact):
    characters = artifact("characters")
    one, other = characters.text(500, 1), characters.text(500, 1)
    assert torch.equal(one, other)
    assert not torch.equal(one, characters.text(500, 2)[: len(one)])
    written = "".join(characters.LETTERS[place] for place in one.tolist())
    line = written.splitlines()[0]
    thing, owner = line.split("who has the ")[1].split("? ", 1)
    assert f"gives the {thing} to {owner.split('.')[0]}" in line


COMPILE = """
import json, re, sys
sys.path[:0] = sys.argv[1:3]
import compiled
from product import PLANS, WIDE
from warplog import profile

def facts(code):
    sass = profile.sass(code.asm["cubin"])
    names = "STL LDL IGMMA IMMA UTMALDG UTMASTG WARPGROUP.DEPBAR RED ATOM ATOMG".split()
    found = {name: profile.instructions(sass, name) for name in names}
    return found | {"shared": code.metadata.shared}

products = {}
for plan in [WIDE, *(plan for _, plan in PLANS)]:
    code = compiled.compile_product(plan)
    products[str(plan)] = facts(code) | {"wgmma": sorted(compiled.matrix_instructions(code))}
plan = PLANS[0][1]
more = {
    "odd": compiled.compile_product(plan, bias=True, described=False),
    "float": compiled.compile_product(plan, bias=True, kind="fp32"),
}
for name, code in more.items():
    products[name] = facts(code) | {"wgmma": sorted(compiled.matrix_instructions(code))}
others = {f"{name} {width}": facts(code) for width in (4096, 14336)
          for name, code in compiled.compile_others(width).items()}
print(json.dumps({"products": products, "others": others}))
"""


@pytest.fixture(scope="module")
def code():
    """Facts of every kernel for sm_90, from a process of its own: here the interpreter takes its place."""
    words = [sys.executable, "-c", COMPILE, str(FOLDER), str(ROOT)]
    own = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(words, capture_output=True, text=True, env=own, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_products_run_on_the_integer_matrix_unit_from_shared_memory(code):
    """One wait a step, so that products stay under way, and tiles come by tensor copies."""
    for plan, facts in code["products"].items():
        assert facts["IGMMA"] >= 4, plan
        assert facts["IMMA"] == 0, plan
        assert all(kind.endswith(".s32.s8.s8") for kind in facts["wgmma"]), plan
        assert facts["UTMALDG"] >= 6, plan
        assert facts["WARPGROUP.DEPBAR"] == 1, plan
        assert (facts["UTMASTG"] > 0) == (plan != "odd"), plan


def test_no_kernel_spills_or_asks_for_more_shared_memory_than_there_is(code):
    for name, facts in (code["products"] | code["others"]).items():
        assert facts["STL"] == facts["LDL"] == 0, name
        assert facts["shared"] <= 232_448, name


def test_no_kernel_adds_up_in_the_order_of_arrival(code):
    for name, facts in code["others"].items():
        assert facts["RED"] == facts["ATOM"] == facts["ATOMG"] == 0, name
