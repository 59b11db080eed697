"""Gradients by the two rules, what breaks a graph, and trainings that are pairs."""

import math
import sys
from contextlib import nullcontext
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from borrowed import modules_of

CPU = torch.device("cpu")
DYNAMO = "ignore:.*should not be instantiated:DeprecationWarning"


@pytest.fixture(scope="module")
def artifact():
    with modules_of("ste-round") as load:
        names = ("kernel", "reference", "gradients", "text", "replay", "many", "toys", "model",
                 "training", "layers", "sizes", "ahead", "breaking", "processor", "reproduce")  # fmt: skip
        shared = ("bitnet_variants", "bitnet_evidence", "bitnet_cases")
        found = {name: load(name) for name in names}
        yield SimpleNamespace(**found, **{name: load(f"shared.{name}") for name in shared})


class Counted:
    """A run that keeps what is counted."""

    device, seed, on_gpu, tiny = CPU, 5, False, True

    def __init__(self):
        self.found = {}

    def count(self, metric, value, *, unit, subject, **workload):
        assert unit is not None
        self.found[metric, subject, tuple(sorted(workload.items()))] = value

    def sizes(self, full, tiny):
        assert full
        return tiny

    def of(self, metric, subject, **workload):
        return self.found[metric, subject, tuple(sorted(workload.items()))]


def test_round_only_gives_a_weight_its_gradient_up_to_one_and_a_half_scales(artifact):
    weight = torch.tensor([0.0, 0.6, 1.4, 1.6, 1.4])  # its scale is 1
    found = artifact.gradients.of_weight(
        artifact.bitnet_variants.detached_weight, weight, torch.arange(1.0, 6)
    )
    assert found.tolist() == [1, 2, 3, 0, 5]


def test_the_scales_gradient_goes_to_all_weights_by_their_signs(artifact):
    """d/ds of s q(w / s) is q - w/s inside and q beyond; each weight's share of s is sign(w) / n."""
    variants = artifact.bitnet_variants
    weight, gradient = torch.randn(1000), torch.randn(1000)
    codes, s = variants.ternary(weight)
    inside = (weight / s).abs() <= 1.5
    of_scale = (gradient * (codes - torch.where(inside, weight / s, 0.0))).sum()
    expected = torch.where(inside, gradient, 0.0) + weight.sign() * of_scale / 1000
    found = artifact.gradients.of_weight(variants.round_weight, weight, gradient)
    assert torch.allclose(found.float(), expected, atol=1e-5)


def test_each_way_gives_planted_weights_the_gradient_of_its_rule(artifact):
    run = Counted()
    artifact.gradients.at_points(run, 64, 64, 64)
    for scales, expected in ((0.4, 1), (0.9, 1), (1.4, 1), (1.6, 0), (2.6, 0)):
        share = run.of("gradient_share", "round only", scales=scales)
        assert share == pytest.approx(expected, abs=0.02)
        for name in ("naive", "functions", "whole layer"):
            assert run.of("gradient_share", name, scales=scales) == pytest.approx(1, abs=0.02)


def test_planted_columns_leave_the_scale_as_it_was(artifact):
    weight = torch.randn(32, 64)
    planted = artifact.gradients.planted(weight)
    s = planted.abs().mean()
    assert s.item() == pytest.approx(weight.abs().mean().item(), rel=1e-5)
    for column, point in enumerate(artifact.gradients.POINTS):
        assert torch.allclose(planted[:, column].abs(), point * s, rtol=1e-4)


@pytest.mark.parametrize("distribution", ["uniform", "normal", "laplace", "two-sized"])
def test_the_closed_form_is_the_root_of_the_share_below_one_and_a_half_scales(
    artifact, distribution
):
    source = torch.Generator().manual_seed(1)
    weight = artifact.gradients.drawn(distribution, 1 << 20, source, CPU)
    share = (weight.abs() < 1.5 * weight.abs().mean()).double().mean().item()
    assert artifact.reference.closed_form(distribution) == pytest.approx(share**0.5, abs=1e-3)


def test_cosines_agree_with_the_closed_form(artifact):
    run = Counted()
    artifact.gradients.cosines(run, 1 << 18)
    for weights in artifact.gradients.DISTRIBUTIONS:
        assert run.of("off_closed_form", "round only", weights=weights) < 3e-3


@pytest.mark.filterwarnings(DYNAMO)
@pytest.mark.parametrize("name", ["naive", "functions", "whole layer", "round only"])
def test_no_way_of_the_layer_breaks_a_graph(artifact, name):
    x, weight, gain, _ = artifact.bitnet_cases.draw(32, 32, 32, 1, CPU)
    leaves = [each.requires_grad_() for each in (x, weight, gain)]
    way = artifact.bitnet_variants.WAYS[name]

    def call(*given):
        return way(*given)

    assert artifact.bitnet_evidence.breaks(call, *leaves) == 0


@pytest.mark.filterwarnings(DYNAMO)
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # likewise
def test_what_asks_the_host_or_is_hidden_breaks_a_graph_and_the_rest_does_not(artifact):
    weight = torch.randn(32, 32, requires_grad=True)

    def found(name):
        function = artifact.kernel.BREAKERS[name]
        return artifact.bitnet_evidence.breaks(lambda w: function.apply(w) * 1.0, weight)

    asking = ("scale read by item()", "branch on the scale", "print", "hidden from the compiler")
    for name in artifact.kernel.BREAKERS:
        assert (found(name) >= 1) == (name in asking), name


def test_each_compiled_way_has_code_of_its_own_and_calls_its_own_way(artifact, monkeypatch):
    """Dynamo keeps what it compiled with the code: six ways in one would be tried in turns."""
    kernel = artifact.kernel
    monkeypatch.setattr(kernel, "compiled", lambda function, **_: function)
    monkeypatch.setattr(kernel, "WAYS", {"a, b": lambda *_: "one", "c": lambda *_: "two"})
    traced = kernel.compiled_ways(["a, b", "c"])
    assert [traced[name](1, 2, 3) for name in ("a, b, compiled", "c, compiled")] == ["one", "two"]
    assert traced["a, b, compiled"].__code__ is not traced["c, compiled"].__code__


@pytest.mark.filterwarnings(DYNAMO)
def test_compiled_ways_are_traced_once_each_and_give_the_eager_bits(artifact, monkeypatch):
    compile_, traced = torch.compile, []

    def backend(graph, _):
        traced.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", lambda way, **_: compile_(way, backend=backend))
    torch._dynamo.reset()
    names = ["naive", "functions", "whole layer", "round only"]
    x, weight, gain, _ = artifact.bitnet_cases.draw(32, 32, 32, 1, CPU)
    for name, way in artifact.kernel.compiled_ways(names).items():
        eager = artifact.bitnet_variants.WAYS[name.removesuffix(", compiled")]
        for _ in range(2):
            assert torch.equal(way(x, weight, gain), eager(x, weight, gain))
    assert len(traced) == len(names)


@pytest.mark.filterwarnings(DYNAMO)
def test_one_graph_serves_all_numbers_of_tokens_and_another_size_has_its_own(artifact, monkeypatch):
    compile_, traced = torch.compile, []

    def backend(graph, _):
        traced.append(graph)
        return graph.forward

    def compiled(way, **options):
        return compile_(way, backend=backend, **options)

    monkeypatch.setattr(torch, "compile", compiled)
    torch._dynamo.reset()
    (way,) = artifact.kernel.compiled_ways(["round only"]).values()
    eager = artifact.bitnet_variants.WAYS["round only"]
    for tokens, width, graphs in ((48, 64, 1), (32, 32, 2), (16, 32, 2), (8, 32, 2), (24, 64, 3)):
        x, weight, gain, _ = artifact.bitnet_cases.draw(tokens, width, width, 1, CPU)
        called = artifact.kernel.any_tokens(way) if width == 32 else way
        assert torch.equal(called(x, weight, gain), eager(x, weight, gain))
        assert len(traced) == graphs


def test_graphs_with_a_function_may_lie_on_disk(artifact):
    """Without leave such a graph is traced anew in every process."""
    functorch = artifact.kernel.functorch
    with functorch.patch(autograd_cache_allow_custom_autograd_functions=False):
        artifact.kernel.compiled_ways([])
        assert functorch.autograd_cache_allow_custom_autograd_functions


def test_the_corpus_is_the_same_for_everyone_and_has_four_words_after_each(artifact):
    text = artifact.text
    found = text.corpus(20_000)
    assert torch.equal(found, text.corpus(20_000))
    assert len(found) == 20_000
    letters = "".join(text.LETTERS[place] for place in found.tolist())
    spoken = letters.replace(".", " ").split()[:-1]
    followers = {}
    for one, two in pairwise(spoken):
        followers.setdefault(one, set()).add(two)
    assert max(map(len, followers.values())) == text.FOLLOWERS
    assert set(spoken) <= set(text.words(0))


SINGLE = {"functions": "FUNCTIONS", "naive": "NAIVE", "round only": "ROUND",
          "round only, scales detached": "DETACHED"}  # fmt: skip


@pytest.mark.parametrize("name", SINGLE)
def test_each_of_many_nets_is_the_single_layer_of_its_weights(artifact, name):
    """Each has a scale of its own: weights of another size in the next net change nothing."""
    source = torch.Generator().manual_seed(1)
    x = torch.randn(3, 8, 16, generator=source, requires_grad=True)
    sizes = torch.tensor([1.0, 10, 0.1]).view(3, 1, 1)
    weight = (torch.randn(3, 4, 16, generator=source) * sizes).requires_grad_()
    gain = (1 + torch.rand(3, 1, 16, generator=source)).requires_grad_()
    gradient = torch.randn(3, 8, 4, generator=source)
    y = artifact.many.RULES[name](x, weight, gain)
    found = y, *torch.autograd.grad(y, (x, weight, gain), gradient)
    way = getattr(artifact.bitnet_variants, SINGLE[name])
    for net in range(3):
        leaves = [each.detach()[net].requires_grad_() for each in (x, weight, gain)]
        expected = way(leaves[0], leaves[1], leaves[2][0])
        grads = torch.autograd.grad(expected, leaves, gradient[net])
        for one, two in zip(found, (expected, *grads), strict=True):
            assert torch.allclose(one[net], two, rtol=1e-4, atol=1e-5)


def test_the_halves_of_round_only_detach_one_scale_each(artifact):
    many, leaf = artifact.many, torch.randn(2, 8, 64).requires_grad_()
    of_weight, of_factor = many.HALVES.values()
    clipped, whole = many.RULES["round only, scales detached"], many.RULES["round only"]

    def gradient(quantise):
        return torch.autograd.grad(quantise(leaf).square().sum(), leaf)[0]

    assert torch.equal(gradient(of_weight.weight), gradient(clipped.weight))
    assert torch.equal(gradient(of_weight.activation), gradient(whole.activation))
    assert torch.equal(gradient(of_factor.weight), gradient(whole.weight))
    assert torch.equal(gradient(of_factor.activation), gradient(clipped.activation))
    assert not torch.equal(gradient(whole.weight), gradient(clipped.weight))


def test_the_mean_of_ratios_that_chance_makes_is_one(artifact):
    """Of 2 and 1/2 the common mean is 1.25."""
    geometric = artifact.many.geometric
    assert geometric(torch.tensor([2.0, 0.5])).item() == pytest.approx(1)
    assert geometric(torch.tensor([[2.0, 1], [8, 1]])).tolist() == pytest.approx([4, 1])


def test_a_net_learns_beside_others_what_it_learns_alone(artifact):
    toys, many = artifact.toys, artifact.many

    def curve(kept, momentum):
        task = toys.Task("classification", 0.02, 3, 4, momentum=momentum)
        data = [each[:, kept] for each in toys.drawn(task, 7)]
        learner = toys.Learner(many.RULES["round only"], task, data, 7)
        if kept != slice(None):
            for each in learner.nets.parameters():
                each.data = each.data[kept]
            learner.optimiser = task.optimiser(learner.nets.parameters(), on_gpu=False)
            learner.mean, learner.curve = learner.mean[kept], learner.curve[:, kept]
        for epoch in range(task.epochs):
            learner.learn(epoch)
        return learner.curve

    for momentum in (False, True):
        together, alone = curve(slice(None), momentum), curve(slice(1, 2), momentum)
        assert torch.allclose(together[:, 1:2], alone, rtol=1e-3)
        assert not torch.allclose(together[:, :1], alone, rtol=1e-3)


def test_rules_of_a_pair_start_alike_and_see_the_same(artifact):
    toys = artifact.toys
    task = toys.Task("regression", 3e-3, 2, 1)
    data = toys.drawn(task, 3)
    first, *others = [
        toys.Learner(rule, task, data, 3).nets.state_dict() for rule in artifact.many.RULES.values()
    ]
    for other in others:
        assert all(torch.equal(first[name], other[name]) for name in first)
    assert all(torch.equal(*each) for each in zip(data, toys.drawn(task, 3), strict=True))
    assert not torch.equal(data[0][:, 0], data[0][:, 1]), "each pair has data of its own"


def test_toys_are_learnt(artifact):
    toys = artifact.toys
    for task in (toys.Task("regression", 1e-2, 4, 12),
                 toys.Task("classification with momentum", 0.08, 4, 12, momentum=True)):  # fmt: skip
        for found in toys.learnt(artifact.many.RULES, task, 3, CPU).values():
            assert (found[-1] < found[0] / 2).all()


def test_with_momentum_a_step_is_as_small_as_its_gradient(artifact):
    task = artifact.toys.Task
    parameters = [torch.nn.Parameter(torch.ones(2))]
    plain = task("classification", 0.1, 1, 1, momentum=True).optimiser(parameters, on_gpu=False)
    adam = task("classification", 0.1, 1, 1).optimiser(parameters, on_gpu=False)
    assert type(plain) is torch.optim.SGD
    assert type(adam) is torch.optim.Adam


def test_toys_compare_means_of_pairs_and_hold_single_pairs_and_chance_beside_them(artifact):
    run, where = Counted(), {"task": "regression", "pairs": 2}
    losses = {"functions": [[2.0, 2], [1, 1]], "naive": [[2, 2], [1.25, 0.8]],
              "round only": [[3, 3], [0.5, 0.5]],
              "round only, scales detached": [[2, 2], [1, 1]]}  # fmt: skip
    losses = {name: torch.tensor(found) for name, found in losses.items()}
    artifact.toys.record(run, losses, where)
    artifact.toys.record_distances(run, losses, where)
    assert run.of("loss_ratio", "naive", **where) == pytest.approx(1)
    assert run.of("loss_ratio_below", "naive", **where) == 0.5
    assert run.of("loss_ratio_error", "naive", **where) == pytest.approx(math.log(1.25))
    assert run.of("loss_ratio", "round only", **where) == pytest.approx(0.5)
    assert run.of("loss_ratio_error", "round only", **where) == 0
    ratio = run.of("detached_ratio", "round only, scales detached", **where)
    assert ratio == pytest.approx(2)
    assert run.of("along_curve", "round only", **where) == pytest.approx(0.5)
    assert run.of("at_end", "naive", **where) == pytest.approx(0, abs=1e-6)
    assert run.of("pair_end", "naive", **where) == pytest.approx((0.25 + 0.2) / 2)
    assert run.of("pair_along", "naive", **where) == pytest.approx((0.25 + 0.2) / 2)


def test_momentum_is_tried_at_several_rates_and_both_halves_in_the_classification(artifact):
    run = Counted()
    artifact.toys.toys(run)
    pairs = 12
    for rate in artifact.toys.MOMENTUM_RATES:
        where = {"task": f"classification with momentum {rate}", "pairs": pairs}
        assert run.of("loss_ratio", "naive", **where) == pytest.approx(1, abs=0.1)
    for name in artifact.many.HALVES:
        assert run.of("detached_ratio", name, task="classification", pairs=pairs) > 0


def shape_of(artifact, **changes):
    from dataclasses import replace

    return replace(artifact.training.TINY, **changes)


def models_of(artifact, name="functions", **changes):
    shape = shape_of(artifact, **changes)
    return artifact.model.initial(artifact.many.RULES[name], shape, 3, CPU), shape


def test_models_of_all_rules_start_from_the_same_weights(artifact):
    shape = artifact.training.TINY
    first, *others = [
        artifact.model.initial(rule, shape, 3, CPU).state_dict()
        for rule in artifact.training.LEARNERS.values()
    ]
    for other in others:
        assert all(torch.equal(first[name], other[name]) for name in first)
    assert not torch.equal(*first["letters"]), "but no two pairs do"


def test_a_model_does_not_see_the_letter_that_it_is_asked_for(artifact):
    models, shape = models_of(artifact, pairs=1)
    letters = torch.randint(20, (1, 1, shape.context))
    changed = letters.clone()
    changed[..., 4:] = 1
    assert torch.equal(models(letters)[:, :4], models(changed)[:, :4])
    window = torch.arange(shape.context + 1).view(1, 1, -1)
    expected = torch.nn.functional.cross_entropy(models(window[..., :-1])[0], window[0, 0, 1:])
    assert models.losses(window).item() == pytest.approx(expected.item())


def test_a_model_sees_its_own_letters_and_no_other_models(artifact):
    models, shape = models_of(artifact)
    window = torch.randint(20, (2, 3, shape.context + 1))
    changed = window.clone()
    changed[1] = 5
    one, two = models.losses(window), models.losses(changed)
    assert one[0] == two[0]
    assert one[1] != two[1]
    models.letters.data[1] += 1
    models.last.data[1] += 1
    assert models.losses(window)[0] == one[0]


def test_training_lowers_the_loss_of_every_model(artifact):
    models, shape = models_of(artifact, "round only")
    window = artifact.text.corpus(18)[: 2 * (shape.context + 1)].view(2, 1, -1)
    trainer = artifact.model.Trainer(models, window)
    before = models.losses(window).detach()
    for _ in range(30):
        trainer.step(window)
    assert (models.losses(window) < before).all()
    assert not trainer.steps.replayed


def test_models_side_by_side_learn_what_each_learns_alone(artifact):
    training, shape = artifact.training, artifact.training.TINY
    batches, kept = training.letters(Counted(), shape)
    names = ("functions", "round only")

    def trained(names):
        models = {
            name: artifact.model.initial(training.RULES[name], shape, 3, CPU) for name in names
        }
        return training.learn(Counted(), models, batches, kept)

    together = trained(names)
    for name in names:
        assert torch.equal(together[name], trained([name])[name])


def test_a_gradient_by_another_rule_leaves_the_models_as_they_were(artifact):
    rules = artifact.many.RULES
    models, shape = models_of(artifact)
    window = artifact.text.corpus(36)[: 4 * (shape.context + 1)].view(2, 2, -1)
    identity = artifact.training.gradient(models, rules["functions"], window)
    other = artifact.training.gradient(models, rules["round only, scales detached"], window)
    assert 0.5 < artifact.gradients.cosine(identity, other) < 0.99
    assert torch.equal(identity, artifact.training.gradient(models, rules["functions"], window))
    assert all(each.rule is rules["functions"] for each in models.layers())


def test_the_language_models_are_described_for_each_rule_and_compared_with_the_identity(artifact):
    run = Counted()
    artifact.training.language(run)
    tiny = artifact.training.TINY
    where = {"task": "language", "steps": tiny.steps, "pairs": tiny.pairs}
    for name in ("naive", "round only", "linear, normed"):
        assert run.of("loss_ratio", name, **where) == pytest.approx(1, abs=0.2)
    for name in ("functions", "naive", "round only"):
        assert 0 < run.of("saturated", name, **where) < 0.5
        assert 0 < run.of("scale_gradient", name, **where) < 1


class Replayed:
    """A graph that counts its replays."""

    def __init__(self):
        self.replays = 0

    def replay(self):
        self.replays += 1


def on_a_gpu(artifact, monkeypatch, graph):
    """Return repeated work that takes its CPU for a GPU, with `graph` in place of a capture."""
    own, main = (SimpleNamespace(waited_for=[]) for _ in range(2))
    for stream in (own, main):
        stream.wait_stream = stream.waited_for.append
    stands_in = {"Stream": lambda: own, "current_stream": lambda: main, "graph": graph,
                 "stream": lambda _: nullcontext(), "CUDAGraph": Replayed}  # fmt: skip
    for name, value in stands_in.items():
        monkeypatch.setattr(torch.cuda, name, value)
    worked = []
    repeated = artifact.replay.Repeated(lambda: worked.append(1), on_gpu=True, eager=3)
    repeated.main, repeated.worked = main, worked
    return repeated


def test_captured_work_is_replayed_after_the_eager_repetitions(artifact, monkeypatch):
    captured_on, order = [], []

    def graph(_, stream):
        captured_on.append(stream)
        return nullcontext()

    repeated = on_a_gpu(artifact, monkeypatch, graph)
    for _ in range(8):
        repeated.again(lambda: order.append("before"), lambda: order.append("after"))
    assert repeated.replayed
    assert order == ["before", "after"] * 8
    assert captured_on == [repeated.side], (
        "cuBLAS shares what it works in among graphs of one stream"
    )
    assert len(repeated.worked) == 3 + 1, "and once to capture it"
    assert repeated.graph.replays == 8 - 3


def test_where_a_capture_fails_every_repetition_is_eager(artifact, monkeypatch, capsys):
    def graph(_, **__):
        raise RuntimeError("operation not permitted when stream is capturing")

    repeated = on_a_gpu(artifact, monkeypatch, graph)
    for _ in range(8):
        repeated.again()
    assert not repeated.replayed
    assert len(repeated.worked) == 8
    assert "not captured" in capsys.readouterr().out


def test_work_waits_for_what_was_done_before_it_and_only_join_waits_for_the_work(
    artifact, monkeypatch
):
    repeated = on_a_gpu(artifact, monkeypatch, None)
    repeated.again()
    assert repeated.side.waited_for == [repeated.main]
    assert repeated.main.waited_for == [], "or no two would go on at the same time"
    repeated.join()
    assert repeated.main.waited_for == [repeated.side]


def test_work_that_has_ended_lets_its_graph_go_once_it_is_done(artifact, monkeypatch):
    """What repeats itself is held by its own work, so its memory would wait for the collector."""
    repeated = on_a_gpu(artifact, monkeypatch, lambda _, **__: nullcontext())
    waited = repeated.side.synchronized = []
    repeated.side.synchronize = lambda: waited.append(repeated.graph)
    for _ in range(5):
        repeated.again()
    graph = repeated.graph
    repeated.end()
    assert waited == [graph]
    assert repeated.graph is None
    assert repeated.replayed


def test_what_a_breaker_prints_is_kept_from_the_log(artifact, monkeypatch, capsys):
    monkeypatch.setattr(artifact.breaking, "available", dict)
    monkeypatch.setattr(
        artifact.breaking, "breaks", lambda call, *leaves: call(*leaves).numel() * 0
    )
    artifact.breaking.graph_breaks(Counted())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ('print(\'[["naive", "layer", 2]]\')', ""),
        ("raise ValueError('no device')", "no device"),
        ("import time; time.sleep(60)", "graph breaks are counted here"),
    ],
)
def test_breaks_are_counted_by_another_process_or_else_here(
    artifact, monkeypatch, capsys, script, told
):
    breaking, run = artifact.breaking, Counted()
    monkeypatch.setattr(breaking, "counted", lambda _: [("naive", "layer", 1)])
    process = breaking.start((sys.executable, "-c", script))
    assert list(breaking.found(process, CPU, seconds=5 if "sleep" not in script else 0.1)) == (
        [("naive", "layer", 1)] if told else [["naive", "layer", 2]]
    )
    assert told in capsys.readouterr().out
    breaking.graph_breaks(run)
    assert run.found["graph_breaks", "naive", (("part", "layer"),)] == 1


def test_torchaos_leaf_is_made_once_for_a_weight_and_kept_while_its_memory_is(
    artifact, monkeypatch
):
    """A timed step does not make it."""
    made = []

    def leaf_of(name, weight):
        made.append((name, weight))
        return weight.detach().requires_grad_()

    monkeypatch.setattr(artifact.layers, "leaf_of", leaf_of)
    leaves, weight = artifact.layers.Leaves(), torch.randn(4, 4)
    first = leaves.of("torchao", weight)
    assert leaves.of("torchao, compiled", weight) is first
    assert leaves.of("torchao", torch.randn(4, 4)) is not first
    assert [name for name, _ in made] == ["torchao", "torchao"]
    assert leaves.of("functions", weight) is not leaves.of("functions", weight)
    assert leaves.of("functions", weight).data_ptr() == weight.data_ptr()


def test_a_step_gives_what_the_shared_one_gives(artifact):
    case = artifact.bitnet_cases.draw(32, 16, 8, 1, CPU)
    way = artifact.bitnet_variants.ROUND
    found = artifact.layers.step(way, "round only", artifact.layers.Leaves(), case, 2)
    expected = artifact.bitnet_evidence.step(way, "round only", *case, 2)
    assert all(torch.equal(*each) for each in zip(found, expected, strict=True))


def test_kernels_are_counted_between_those_that_only_wait(artifact, monkeypatch):
    """One look of the profiler sees all calls; a kernel of a name of its own stands before each."""
    script, seen = artifact.layers, []
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _: seen.append("wait"), raising=False)
    monkeypatch.setattr(script, "forward", lambda way, _: seen.extend(["kernel"] * way))
    monkeypatch.setattr(script, "step", lambda way, *_: seen.extend(["kernel"] * 3 * way))
    run = Counted()

    def launches(call):
        call()
        return [SimpleNamespace(name=name) for name in seen]

    run.launches = launches
    script.count_launches(run, {"a": 9, "a, compiled": 2, "b, compiled": 0}, ())
    found = {(subject, dict(where)["part"]): n for (_, subject, where), n in run.found.items()}
    assert found == {("a, compiled", "forward"): 2, ("a, compiled", "step"): 6,
                     ("b, compiled", "forward"): 0, ("b, compiled", "step"): 0}  # fmt: skip


def test_at_each_size_a_way_is_timed_eager_compiled_and_replayed(artifact, monkeypatch):
    sizes, calls_of = artifact.sizes, []
    monkeypatch.setattr(sizes, "replayed", lambda calls: {f"{name}, graph": 1 for name in calls})

    def wall_seconds(calls, *_, **__):
        calls_of.append(set(calls))
        return {name: [1.0 if "graph" in name else 4.0] for name in calls}

    monkeypatch.setattr(sizes, "wall_seconds", wall_seconds)
    monkeypatch.setattr(sizes, "SIZES", [(16, 32, 32), (32, 16, 8)])
    monkeypatch.setattr(sizes, "NARROW", 0)
    ways = artifact.bitnet_variants.WAYS
    run = Counted()
    sizes.at_sizes(run, {f"{name}, compiled": ways[name] for name in sizes.COMPILED})
    assert len(calls_of[0]) == 2 * (len(sizes.EAGER) + len(sizes.COMPILED))
    for where in ({"tokens": 16, "width": 32, "out": 32}, {"tokens": 32, "width": 16, "out": 8}):
        assert run.of("loop_time", "round only, compiled, graph", **where) == [1.0]
        assert run.of("replay_gain", "round only, scales detached", **where) == 4
        assert run.of("compiled_replay_gain", "functions", **where) == 4
        assert run.of("compiler_gain", "round only", **where) == 1
        assert run.of("compiled_over_round", "functions", **where) == 1


def test_all_of_the_specifications_sizes_are_timed(artifact):
    assert set(artifact.sizes.SIZES) == {
        (256, 2048, 2048), (2048, 2048, 2048), (4096, 2048, 2048), (8192, 4096, 4096),
        (8192, 4096, 14336), (16384, 4096, 4096), (16384, 8192, 8192)}  # fmt: skip


def test_a_compiled_step_that_lies_apart_from_the_eager_one_is_not_timed(artifact, capsys):
    agrees, right = artifact.sizes.agrees, (torch.ones(4), torch.ones(4))
    wrong = (torch.ones(4), torch.tensor([1.0, 1, 1, 2]))
    calls = {"a": lambda: right, "a, compiled": lambda: right, "b": lambda: right,
             "b, compiled": lambda: wrong, "c": lambda: right,
             "c, compiled": lambda: (torch.full((4,), torch.nan),) * 2}  # fmt: skip
    assert [agrees(name, calls) for name in calls] == [True, True, True, False, True, False]
    assert "b, compiled: apart by 0.5" in capsys.readouterr().out


def test_a_replay_that_gives_something_else_is_not_timed(artifact, monkeypatch):
    def repeated(work, **_):
        graph = SimpleNamespace(replay="replay")
        return SimpleNamespace(again=work, join=lambda: None, replayed=True, graph=graph)

    monkeypatch.setattr(artifact.sizes, "Repeated", repeated)
    changing = iter([(torch.ones(2),), (torch.zeros(2),)])
    calls = {"steady": lambda: (torch.ones(2),), "changing": lambda: next(changing)}
    assert artifact.sizes.replayed(calls) == {"steady, graph": "replay"}


def test_a_graph_goes_with_its_last_user(artifact, monkeypatch):
    """The graphs of seven sizes hold more memory together than a GPU has."""
    import gc
    import weakref

    class Graph(SimpleNamespace):
        def replay(self):
            pass

    graphs = []

    def repeated(work, **_):
        graph = Graph()
        graphs.append(weakref.ref(graph))
        return SimpleNamespace(again=work, join=lambda: None, replayed=True, graph=graph)

    monkeypatch.setattr(artifact.sizes, "Repeated", repeated)
    found = artifact.sizes.replayed({"a": lambda: (torch.ones(2),)})
    gc.disable()
    try:
        assert graphs[0]() is not None
        found.clear()
        assert graphs[0]() is None
    finally:
        gc.enable()


@pytest.fixture
def cold(artifact, monkeypatch, tmp_path):
    mark = tmp_path / "mark"
    monkeypatch.setattr(artifact.ahead, "mark", lambda: mark)
    return mark


def test_processes_compile_ahead_only_where_nothing_was_compiled(artifact, cold):
    ahead = artifact.ahead
    command = (sys.executable, "-c", "import shared.bitnet_cases")
    processes = ahead.start(("one", "two"), command)
    assert set(processes) == {"one", "two"}
    ahead.finish(processes)
    assert cold.exists()
    assert ahead.start(("one",), command) == {}


def test_what_could_not_be_compiled_ahead_is_said_and_tried_again(artifact, cold, capsys):
    ahead = artifact.ahead
    ahead.finish(ahead.start(("one",), (sys.executable, "-c", "raise ValueError('no device')")))
    assert "one: not compiled ahead" in capsys.readouterr().out
    assert not cold.exists()


def test_a_process_that_hangs_is_not_waited_for(artifact, cold):
    ahead = artifact.ahead
    processes = ahead.start(("one",), (sys.executable, "-c", "import time; time.sleep(60)"))
    ahead.finish(processes, seconds=0.1)
    assert processes["one"].returncode != 0
    assert not cold.exists()


def test_the_mark_is_another_for_other_sources(artifact, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    before = artifact.ahead.mark()
    assert before.parent == tmp_path / "cache"
    (tmp_path / "ste").mkdir()
    (tmp_path / "ste" / "kernel.py").write_text("another")
    monkeypatch.setattr(artifact.ahead, "HERE", tmp_path / "ste")
    assert artifact.ahead.mark() != before


@pytest.mark.filterwarnings(DYNAMO)
def test_each_way_is_compiled_ahead_at_the_sizes_of_which_it_is_timed(artifact, monkeypatch):
    seen, layers = [], artifact.layers
    monkeypatch.setattr(artifact.kernel, "compiled", lambda way, **_: way)
    monkeypatch.setattr(artifact.sizes, "step", lambda _, name, __, case: seen.append((name, case)))
    monkeypatch.setattr(artifact.sizes, "draw", lambda *sizes: sizes[:3])
    for name in artifact.ahead.JOBS:
        artifact.ahead.compile_way(name, CPU)
    for name in artifact.kernel.COMPILED:
        sizes = {case for way, case in seen if way == name}
        timed = {layers.MAIN} | set(artifact.sizes.SIZES if name in artifact.sizes.COMPILED else ())
        assert sizes == (timed if name in artifact.ahead.JOBS else set())


def test_a_way_that_does_not_compile_is_said_and_the_others_are_loaded(
    artifact, monkeypatch, capsys
):
    sizes, called = artifact.sizes, []

    def call(_way, name, _device):
        called.append(name)
        if name == "naive":
            raise RuntimeError("no compiler")

    monkeypatch.setattr(artifact.kernel, "compiled", lambda way, **_: way)
    monkeypatch.setattr(sizes, "call_at_all", call)
    ways = sizes.loaded(Counted())
    assert {f"{name}, compiled" for name in called} == set(ways)
    assert "naive, compiled" in ways
    assert capsys.readouterr().out == "naive: not compiled: no compiler\n"


def test_one_thread_is_for_what_is_within_and_all_are_back_afterwards(artifact):
    threads = torch.get_num_threads()
    with artifact.processor.one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == threads


@pytest.fixture
def on_the_cpu(artifact, monkeypatch):
    """What is counted on the CPU with few tokens and no threshold of this process changed."""
    processor, run, states = artifact.processor, Counted(), []
    monkeypatch.setattr(run, "sizes", lambda **_: [(4, 16, 8), (8, 16, 8)])
    monkeypatch.setattr(processor, "set_thresholds", lambda *given: states.append(given) or True)
    processor.on_the_cpu(run)
    run.states = states
    return run


def test_beside_a_time_on_the_cpu_stand_the_number_of_its_operations_and_its_pages(on_the_cpu):
    where = {"part": "quantisers", "place": "cpu", "tokens": 4, "width": 16, "out": 8}
    found = {name: on_the_cpu.of("operations", name, **where)
             for name in ("naive", "functions", "round only")}  # fmt: skip
    assert found["functions"] < found["naive"] < found["round only"]
    assert on_the_cpu.of("page_faults", "naive", **where) >= 0


def test_the_quantisers_of_both_sizes_are_timed_on_one_thread_and_the_large_step_is_not(on_the_cpu):
    places = {(subject, *(dict(where)[each] for each in ("part", "tokens")))
              for metric, subject, where in on_the_cpu.found
              if metric == "cpu_time" and dict(where)["place"] == "cpu on one thread"}  # fmt: skip
    assert {each[1:] for each in places} == {("step", 4), ("quantisers", 4), ("quantisers", 8)}


def test_memory_is_first_given_back_and_then_kept_and_both_are_compared(artifact, on_the_cpu):
    assert on_the_cpu.states == [artifact.processor.GIVEN_BACK, artifact.processor.KEPT]
    for part in ("step", "quantisers"):
        assert on_the_cpu.of("kept_gain", "naive", part=part, place="cpu") > 0


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has the thresholds")
def test_memory_that_is_kept_is_not_asked_of_the_system_again():
    """In a process of its own, for the thresholds stay."""
    import subprocess
    from pathlib import Path

    folder = Path(__file__).parents[1] / "artifacts"
    script = (
        f"import sys; sys.path[:0] = [{str(folder / 'ste-round')!r}, {str(folder)!r}]\n"
        "import torch, processor as p\n"
        "call = lambda: torch.ones(1 << 20) + 1\n"
        "for state in (p.GIVEN_BACK, p.KEPT):\n"
        "    assert p.set_thresholds(*state)\n"
        "    print(min(p.faults(call) for _ in range(8)))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    given_back, kept = map(int, found.stdout.split())
    assert given_back > 500
    assert kept < 10


def test_a_weight_is_finite_also_where_the_even_draw_is_at_its_end(artifact, monkeypatch):
    """One in 2**24 draws is exactly zero, of which -1 is made."""
    monkeypatch.setattr(torch, "rand", lambda *size, **_: torch.zeros(*size))
    for distribution in artifact.gradients.DISTRIBUTIONS:
        source = torch.Generator().manual_seed(1)
        assert artifact.gradients.drawn(distribution, 8, source, CPU).isfinite().all()


def test_a_way_without_up_casts_is_left_to_the_entry_on_overhead(artifact, monkeypatch):
    run = Counted()
    artifact.gradients.at_points(run, 32, 32, 32)
    assert not any(subject == "naive, no up-casts" for _, subject, _ in run.found)
    monkeypatch.setattr(artifact.breaking, "breaks_of", lambda *_: 0)
    seen = [name for name, _, _ in artifact.breaking.counted(CPU)]
    assert "naive" in seen
    assert "naive, no up-casts" not in seen
