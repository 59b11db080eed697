"""BitNet's layer in every way: what its bits, gradients and counts must be, and what the study sees."""

from types import SimpleNamespace

import pytest
import torch
from borrowed import modules_of

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def artifact():
    with modules_of("bitnet-overhead") as load:
        names = ("kernel", "reference", "counts", "equality", "accuracy", "parts", "reproduce")
        shared = ("bitnet_variants", "bitnet_evidence", "bitnet_reference", "bitnet_cases")
        found = {name: load(name) for name in names}
        yield SimpleNamespace(**found, **{name: load(f"shared.{name}") for name in shared})


@pytest.fixture(scope="module")
def ways(artifact):
    """Every way but torchao's, which has its own tests."""
    found = artifact.bitnet_variants.WAYS
    return {name: way for name, way in found.items() if name != "torchao"}


def quantised(ways):
    return {name: way for name, way in ways.items() if not name.startswith("linear")}


def case(artifact, tokens=16, width=64, out=32, **options):
    return artifact.bitnet_cases.draw(tokens, width, out, 3, CPU, dtype=torch.float32, **options)


class Counted:
    """A run that keeps what is counted."""

    device, seed, on_gpu, tiny = CPU, 5, False, True

    def __init__(self):
        self.found = {}

    def count(self, metric, value, *, unit, subject, **workload):
        assert unit is not None
        self.found[metric, subject, tuple(sorted(workload.items()))] = value

    def launches(self, _):
        return []

    def of(self, metric, subject, **workload):
        return self.found[metric, subject, tuple(sorted(workload.items()))]


def test_every_way_gives_the_exact_product_of_codes(artifact, ways):
    x, weight, gain, _ = case(artifact, weights="normal")
    expected = artifact.bitnet_reference.layer(x, weight, gain)
    for name, way in quantised(ways).items():
        error = (way(x, weight, gain).double() - expected).norm() / expected.norm()
        assert error < 2e-3, name


def test_half_is_rounded_to_the_even_code(artifact):
    codes, _ = artifact.bitnet_variants.int8_range(
        torch.tensor([[127.0, 0.5, 1.5, 2.5, -0.5, -1.5]])
    )
    assert codes.tolist() == [[127, 0, 2, 2, 0, -2]]


def test_a_row_of_zeros_and_a_weight_of_zeros_give_zeros(ways):
    for name, way in quantised(ways).items():
        y = way(torch.zeros(32, 16), torch.zeros(8, 16), torch.ones(16))
        assert torch.equal(y, torch.zeros(32, 8)), name


def test_a_bias_is_added_and_leading_axes_are_kept(artifact, ways):
    x, weight, gain, _ = case(artifact, tokens=32)
    bias = torch.arange(32.0)
    for name, way in ways.items():
        folded = way(x.reshape(4, 8, 64), weight, gain, bias)
        assert folded.shape == (4, 8, 32), name
        assert torch.allclose(folded.reshape(32, 32), way(x, weight, gain) + bias, atol=1e-5), name


def test_every_way_has_the_state_of_the_others(artifact):
    variants = artifact.bitnet_variants
    keys = {tuple(variants.BitLinear(way, 8, 4, bias=True).state_dict())
            for way in (variants.NAIVE, variants.FUNCTIONS, variants.LINEAR)}  # fmt: skip
    assert keys == {("weight", "bias", "input_norm.weight")}


@pytest.mark.parametrize("name", ["naive", "functions", "whole layer"])
def test_a_step_gives_straight_through_gradients(artifact, ways, name):
    given = case(artifact, weights="normal")
    expected = artifact.reference.step(*given)
    found = artifact.bitnet_evidence.step(ways[name], name, *given)
    for one, other in zip(found, expected, strict=True):
        assert (one.double() - other).norm() / other.norm() < 3e-3


def test_weights_that_are_timed_saturate_nowhere_so_all_rules_agree(artifact, ways):
    given = case(artifact, tokens=256, width=256, out=256)
    _, s = artifact.bitnet_variants.ternary(given[1])
    assert (given[1].abs() / s).max() < 1.5
    expected = artifact.reference.step(*given)[2]
    for name, way in ways.items():
        found = artifact.bitnet_evidence.step(way, name, *given)[2]
        assert (found.double() - expected).norm() / expected.norm() < 0.05, name


def test_of_large_outputs_every_so_manieth_row_is_given_by_both(artifact, ways):
    given = case(artifact)
    found = artifact.bitnet_evidence.step(ways["functions"], "functions", *given, 4)
    expected = artifact.reference.step(*given, 4)
    assert [each.shape for each in found] == [each.shape for each in expected]
    whole = artifact.reference.step(*given)
    for part, all_rows in zip(expected, whole, strict=True):
        assert torch.allclose(part, all_rows[::4])


def test_nine_operations_make_the_weight_quantiser(artifact):
    weight = torch.randn(16, 16, requires_grad=True)
    seen = artifact.bitnet_evidence.operations(
        lambda: artifact.bitnet_variants.narrow_weight(weight)
    )
    assert seen == ["abs", "mean", "clamp", "div", "round", "clamp", "mul", "sub", "add"]


def test_the_idiom_is_one_node_and_keeps_nothing(artifact):
    run = Counted()
    artifact.counts.idiom(run)
    assert run.of("nodes", "straight-through idiom") == 1
    assert run.of("saved_bytes", "straight-through idiom") == 0


def test_bytes_of_a_node_that_was_cut_off_do_not_count(artifact):
    x = torch.randn(100, requires_grad=True)
    saved = artifact.bitnet_evidence.saved_bytes
    assert saved(lambda: x + (x.exp() * x).detach(), [x]) == 0
    assert saved(x.exp, [x]) == 400
    assert saved(lambda: x * 2 * x, [x]) == 400


def test_a_storage_that_two_nodes_keep_counts_once(artifact):
    x = torch.randn(100, requires_grad=True)

    def call():
        y = x.exp()
        return y * y.view(100)

    assert artifact.bitnet_evidence.saved_bytes(call, [x]) == 400


def test_kernels_are_told_apart_by_their_names(artifact):
    kinds = {
        "nvjet_tst_128x256_64x4_2x1_v_bz_TNT": "matmul",
        "cutlass_80_tensorop_i16832gemm_s8_128x128_64x5_tn_align16": "matmul",
        "_scaled_int8_mm_kernel": "matmul",
        "void at::native::reduce_kernel<512, 1, ...>": "reduction",
        "void at::native::vectorized_elementwise_kernel<4, ...>": "elementwise",
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda": "copy",
        "triton_red_fused_abs_mean_0": "triton",
        "void at::native::vectorized_layer_norm_kernel": "norm",
        "something": "other",
    }
    assert {name: artifact.bitnet_evidence.kind_of(name) for name in kinds} == kinds


def test_the_idiom_changes_no_weight_below_two_scales_and_some_above_three(artifact):
    run = Counted()
    artifact.equality.weights_apart(run, 1 << 12)
    shares = [run.of("differing_weights", "naive, float32", scales=each)
              for each in ("0 to 1.5", "1.5 to 2", "3 to 6")]  # fmt: skip
    assert shares[:2] == [0, 0]
    assert shares[2] > 0.1


def test_outputs_differ_in_some_draws_of_normal_weights_and_in_none_of_uniform_ones(artifact):
    run = Counted()
    artifact.equality.draws(run, 32, 128, 64)
    assert run.of("differing_draws", "naive", weights="uniform") == 0
    assert 0 < run.of("differing_draws", "naive", weights="normal") <= artifact.equality.DRAWS


def test_a_factor_in_bfloat16_flips_more_of_the_large_codes(artifact):
    run = Counted()
    artifact.accuracy.flips(run, 32, 256, 64)
    shares = [run.of("flipped_by_size", "bfloat16 scale", codes=each)
              for each in ("0 to 15", "16 to 95", "96 to 127")]  # fmt: skip
    assert shares == sorted(shares)
    assert shares[2] > 5 * shares[0]


def test_over_many_scales_bfloat16_flips_some_codes_of_the_weight(artifact):
    run = Counted()
    artifact.accuracy.scales(run, 1 << 12)
    for name in ("bfloat16 scale", "bfloat16"):
        mean, largest = (run.of("flipped_weights", name, over=each) for each in ("mean", "largest"))
        assert 0 < mean < largest < 0.01


def test_the_seconds_of_a_step_are_those_of_its_products_and_of_the_rest(artifact, monkeypatch):
    found = [("nvjet_tst_128x256", 2e-3), ("vectorized_elementwise_kernel", 1e-3), ("mm", 5e-4)]
    monkeypatch.setattr(artifact.parts, "kernels", lambda _: found)
    run = Counted()
    artifact.parts.times(run, 8, 16, 8)
    for name in ("linear", "naive", "functions"):
        seconds = [run.of("kernel_time", name, part=part, tokens=8, width=16, out=8)
                   for part in ("products", "rest")]  # fmt: skip
        assert seconds == pytest.approx([2.5e-3, 1e-3])


def test_a_zero_added_last_never_changes_a_bit(artifact):
    variants = artifact.bitnet_variants
    weight = torch.randn(64, 4096)
    assert torch.equal(variants.exact_weight(weight), variants.WeightFunction.apply(weight))
    assert torch.equal(variants.exact_activation(weight), variants.ActivationFunction.apply(weight))


def test_in_training_losses_part_after_the_idiom_changed_a_weight_and_never_with_the_exact_sum(
    artifact,
):
    run = Counted()
    artifact.equality.drift(run)
    where = {"epochs": 50, "place": "cpu"}
    assert run.of("equal_epochs", "naive, exact sum", **where) == 50
    assert run.of("equal_epochs", "naive", **where) < 50
    assert run.of("steps_after_cause", "naive", **where) >= 0


def test_equal_steps_end_at_the_first_difference(artifact):
    assert artifact.equality.equal_steps([1.0, 2.0, 3.0], [1.0, 2.5, 3.0]) == 1
    assert artifact.equality.equal_steps([1.0, 2.0], [1.0, 2.0]) == 2


@pytest.mark.filterwarnings(
    "ignore:.*should not be instantiated:DeprecationWarning"
)  # dynamo's own
def test_compiled_quantisers_are_compiled_and_give_the_bits_of_the_functions(artifact, monkeypatch):
    """A Function's `apply` given to torch.compile as it is would be run eagerly, without a word."""
    kernel, traced = artifact.kernel, []

    def backend(graph, _):
        traced.append(graph)
        return graph.forward

    compile_ = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda way, **options: compile_(way, backend=backend, **options)
    )
    torch._dynamo.reset()
    layer = kernel.compiled_quantisers.__wrapped__()  # not one that is kept
    given = case(artifact)
    for tokens in (16, 8):
        found = layer(given[0][:tokens].clone(), given[1], given[2])
        assert torch.equal(
            found, artifact.bitnet_variants.FUNCTIONS(given[0][:tokens], *given[1:3])
        )
    assert len(traced) == 2, "one graph for the weight, one for all activations"


def test_a_compiled_way_runs_in_a_check_as_in_a_timing(artifact, monkeypatch):
    """The poison of a check is a mode of torch's functions, for which dynamo would compile once more."""
    from warplog.measure import poisoned

    compile_, traced = torch.compile, []

    def backend(graph, _):
        traced.append(graph)
        return graph.forward

    monkeypatch.setattr(
        torch, "compile", lambda way, **options: compile_(way, backend=backend, **options)
    )
    torch._dynamo.reset()
    call = artifact.kernel.compiled(lambda x: x.sin() + 1)
    call(torch.ones(3))
    with poisoned():
        call(torch.ones(3))
        assert torch.isnan(torch.empty(2)).all(), "the poison is back afterwards"
    assert len(traced) == 1


def test_a_wall_clock_takes_turns_and_drops_the_first_round(artifact):
    order = []
    calls = {name: lambda name=name: order.append(name) for name in ("a", "b")}
    found = artifact.bitnet_evidence.wall_seconds(calls, CPU, rounds=2, each=2)
    assert order == ["a", "a", "b", "b", "b", "b", "a", "a", "a", "a", "b", "b"]
    assert [len(each) for each in found.values()] == [2, 2]


def test_without_a_gpu_the_cpu_is_timed_and_under_a_sanitizer_nothing(artifact, monkeypatch):
    script, timed = artifact.reproduce, []
    for name in ("counts", "accuracy", "equality"):
        monkeypatch.setattr(script, name, SimpleNamespace(
            layers=lambda *_: None, quantisers=lambda *_: None, idiom=lambda *_: None,
            errors=lambda *_, **__: None, flips=lambda *_: None, forwards=lambda *_: None,
            scales=lambda *_: None, draws=lambda *_: None,
            weights_apart=lambda *_: None, drift=lambda *_: None))  # fmt: skip
    monkeypatch.setattr(script, "steps", lambda *_: None)
    monkeypatch.setattr(script, "compiled_quantisers", lambda: None)
    monkeypatch.setattr(script, "on_cpu", lambda _, *sizes: timed.append(sizes))
    run = Counted()
    run.sizes = lambda tiny, **_: tiny
    script.reproduce(run)
    assert timed == list(script.ON_CPU)
    run.on_gpu = True
    script.reproduce(run)
    assert len(timed) == len(script.ON_CPU)


def test_torchaos_layer_is_its_own_function_and_near_the_exact_product(artifact):
    pytest.importorskip("torchao")
    variants = artifact.bitnet_variants
    x, weight, gain, gradient = case(artifact)
    leaf = variants.leaf_of("torchao", weight)
    assert type(leaf).__name__ == "BitNetTrainingLinearWeight"
    found = artifact.bitnet_evidence.step(
        variants.torchao_layer, "torchao", x, weight, gain, gradient
    )
    assert type(found[2]) is torch.Tensor
    expected = artifact.reference.step(x, weight, gain, gradient)
    for one, other in zip(found, expected, strict=True):
        assert (one.double() - other).norm() / other.norm() < 0.02
