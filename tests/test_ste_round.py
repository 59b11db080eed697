"""Gradients by the two rules, what breaks a graph, and trainings that are pairs."""

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
        names = ("kernel", "reference", "gradients", "text", "model", "training", "reproduce")
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


def test_models_of_all_ways_start_from_the_same_weights(artifact):
    shape = artifact.training.TINY
    first, *others = [
        artifact.model.initial(way, shape, 3, CPU).state_dict()
        for way in artifact.training.RULES.values()
    ]
    for other in others:
        assert all(torch.equal(first[name], other[name]) for name in first)


def test_a_model_does_not_see_the_letter_that_it_is_asked_for(artifact):
    shape = artifact.training.TINY
    model = artifact.model.initial(artifact.bitnet_variants.FUNCTIONS, shape, 3, CPU)
    letters = torch.randint(20, (1, shape.context))
    changed = letters.clone()
    changed[:, 4:] = 1
    assert torch.equal(model(letters)[:, :4], model(changed)[:, :4])
    window = torch.arange(shape.context + 1)[None]
    assert model.loss(window) == torch.nn.functional.cross_entropy(
        model(window[:, :-1])[0], window[0, 1:]
    )


def test_training_lowers_the_loss(artifact):
    shape = artifact.training.TINY
    model = artifact.model.initial(artifact.bitnet_variants.ROUND, shape, 3, CPU)
    window = artifact.text.corpus(18)[: 2 * (shape.context + 1)].view(2, -1)
    trainer = artifact.model.Trainer(model, window)
    before = model.loss(window).item()
    for _ in range(30):
        trainer.step(window)
    assert model.loss(window).item() < before
    assert not trainer.replayed


def on_a_gpu(artifact, monkeypatch, graph):
    """Return a trainer that takes its CPU for a GPU, with `graph` in place of a capture."""
    from contextlib import nullcontext

    own, main = (SimpleNamespace(waited_for=[]) for _ in range(2))
    for stream in (own, main):
        stream.wait_stream = stream.waited_for.append
    stands_in = {"Stream": lambda: own, "current_stream": lambda: main, "graph": graph,
                 "stream": lambda _: nullcontext(), "CUDAGraph": Replayed}  # fmt: skip
    for name, value in stands_in.items():
        monkeypatch.setattr(torch.cuda, name, value)
    shape = artifact.training.TINY
    model = artifact.model.initial(artifact.bitnet_variants.FUNCTIONS, shape, 3, CPU)
    trainer = artifact.model.Trainer(model, artifact.text.corpus(18).view(2, -1))
    trainer.on_gpu, trainer.side, trainer.main = True, own, main
    trainer.worked = 0

    def work():
        trainer.worked += 1

    trainer._work = work
    return trainer


class Replayed:
    """A graph that counts its replays."""

    def __init__(self):
        self.replays = 0

    def replay(self):
        self.replays += 1


def test_a_captured_step_is_replayed_once_for_each_batch_after_the_eager_ones(
    artifact, monkeypatch
):
    from contextlib import nullcontext

    captured_on = []

    def graph(_, stream):
        captured_on.append(stream)
        return nullcontext()

    trainer = on_a_gpu(artifact, monkeypatch, graph)
    for _ in range(8):
        trainer.step(artifact.text.corpus(18).view(2, -1))
    assert trainer.replayed
    assert captured_on == [trainer.side], (
        "cuBLAS shares what it works in among graphs of one stream"
    )
    assert trainer.worked == artifact.model.EAGER_STEPS + 1, "and once to capture it"
    assert trainer.graph.replays == 8 - artifact.model.EAGER_STEPS


def test_where_a_capture_fails_every_step_is_eager(artifact, monkeypatch, capsys):
    def graph(_, **__):
        raise RuntimeError("operation not permitted when stream is capturing")

    trainer = on_a_gpu(artifact, monkeypatch, graph)
    for _ in range(8):
        trainer.step(artifact.text.corpus(18).view(2, -1))
    assert not trainer.replayed
    assert trainer.worked == 8
    assert "cannot be captured" in capsys.readouterr().out


def test_a_step_waits_for_what_was_done_before_it_and_only_join_waits_for_the_step(
    artifact, monkeypatch
):
    trainer = on_a_gpu(artifact, monkeypatch, None)
    trainer.step(artifact.text.corpus(18).view(2, -1))
    assert trainer.side.waited_for == [trainer.main]
    assert trainer.main.waited_for == [], "or no two trainers would work at the same time"
    trainer.join()
    assert trainer.main.waited_for == [trainer.side]


def test_models_side_by_side_learn_what_each_learns_alone(artifact):
    training, shape = artifact.training, artifact.training.TINY
    batches, kept = training.letters(Counted(), shape)
    names = ("functions", "round only")

    def trained(names):
        models = {
            name: artifact.model.initial(training.RULES[name], shape, 3, CPU) for name in names
        }
        return training.learn(Counted(), models, batches, kept)

    assert trained(names) == {name: trained([name])[name] for name in names}


def test_a_gradient_by_another_rule_leaves_the_model_as_it_was(artifact):
    variants, shape = artifact.bitnet_variants, artifact.training.TINY
    model = artifact.model.initial(variants.FUNCTIONS, shape, 3, CPU)
    window = artifact.text.corpus(18).view(2, -1)
    identity = artifact.training.gradient(model, variants.FUNCTIONS, window)
    other = artifact.training.gradient(model, variants.DETACHED, window)
    assert 0.5 < artifact.gradients.cosine(identity, other) < 0.99
    assert torch.equal(identity, artifact.training.gradient(model, variants.FUNCTIONS, window))
    ways = {each.way for each in model.modules() if isinstance(each, variants.BitLinear)}
    assert ways == {variants.FUNCTIONS}


def test_toys_compare_pairs_and_hold_chance_beside_them(artifact, monkeypatch):
    losses = {"functions": [2.0, 1.0], "naive": [2.0, 1.1], "round only": [3.0, 1.0],
              "round only, scales detached": [2.0, 1.0]}  # fmt: skip
    training = artifact.training
    names = {id(way): name for name, way in training.RULES.items()}
    monkeypatch.setattr(training, "EPOCHS", 2)
    monkeypatch.setattr(training, "toy", lambda way, *_: losses[names[id(way)]])
    run = Counted()
    training.toys(run)
    where = {"task": "regression", "epochs": 2}
    assert run.of("along_curve", "round only", **where) == 0.5
    assert run.of("at_end", "round only", **where) == 0
    assert run.of("loss_ratio", "naive", **where) == pytest.approx(1.1)


def test_the_language_model_is_described_for_each_rule_and_compared_with_the_identity(artifact):
    run = Counted()
    artifact.training.language(run)
    where = {"task": "language", "steps": artifact.training.TINY.steps}
    for name in ("naive", "round only", "round only, scales detached", "linear, normed"):
        assert run.of("loss_ratio", name, **where) == pytest.approx(1, abs=0.2)
    for name in artifact.training.RULES:
        assert 0 < run.of("saturated", name, **where) < 0.5
    ratio = run.of("detached_ratio", "round only, scales detached", task="language")
    assert ratio == pytest.approx(1, abs=0.2)


def test_the_halves_of_round_only_detach_one_scale_each(artifact):
    variants, leaf = artifact.bitnet_variants, torch.randn(8, 64).requires_grad_()
    of_weight, of_factor = artifact.training.HALVES.values()

    def gradient(quantise):
        return torch.autograd.grad(quantise(leaf).square().sum(), leaf)[0]

    assert torch.equal(gradient(of_weight.weight), gradient(variants.detached_weight))
    assert torch.equal(gradient(of_weight.activation), gradient(variants.round_activation))
    assert torch.equal(gradient(of_factor.weight), gradient(variants.round_weight))
    assert torch.equal(gradient(of_factor.activation), gradient(variants.detached_activation))


def test_with_momentum_a_step_is_as_small_as_its_gradient(artifact, monkeypatch):
    used = artifact.training.optimiser_of
    model = torch.nn.Linear(2, 2)
    assert type(used(model, "classification with momentum")) is torch.optim.SGD
    assert type(used(model, "classification")) is torch.optim.Adam
    losses = {"functions": [1.0], "naive": [1.1], "round only": [2.0],
              "round only, scales detached": [3.0]}  # fmt: skip
    names = {id(way): name for name, way in artifact.training.RULES.items()}
    monkeypatch.setattr(artifact.training, "EPOCHS", 1)
    monkeypatch.setattr(artifact.training, "toy", lambda way, *_: losses[names[id(way)]])
    run = Counted()
    artifact.training.without_adam(run)
    task = "classification with momentum"
    assert run.of("detached_ratio", "round only, scales detached", task=task) == 1.5
    assert run.of("loss_ratio", "round only", task=task, epochs=1) == 2
    assert run.of("loss_ratio", "naive", task=task, epochs=1) == pytest.approx(1.1)


def test_what_a_breaker_prints_is_kept_from_the_log(artifact, monkeypatch, capsys):
    script = artifact.reproduce
    monkeypatch.setattr(script, "available", dict)
    monkeypatch.setattr(script, "breaks", lambda call, *leaves: call(*leaves).numel() * 0)
    script.graph_breaks(Counted())
    assert capsys.readouterr().out == ""


def test_one_thread_is_timed_apart_and_the_number_of_threads_is_as_before(artifact, monkeypatch):
    seen = []
    script, threads = artifact.reproduce, torch.get_num_threads()
    monkeypatch.setattr(script, "on_cpu", lambda *_, place: seen.append(
        (place, torch.get_num_threads())))  # fmt: skip
    run = Counted()
    script.on_one_thread(run, 8, 16, 8)
    assert seen == [("cpu on one thread", 1)]
    assert torch.get_num_threads() == threads == run.of("threads", "cpu")


def test_kernels_are_counted_between_those_that_only_wait(artifact, monkeypatch):
    """One look of the profiler sees all calls; a kernel of a name of its own stands before each."""
    script, seen = artifact.reproduce, []
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _: seen.append("wait"), raising=False)
    monkeypatch.setattr(script, "forward", lambda way, _: seen.extend(["kernel"] * way))
    monkeypatch.setattr(script, "step", lambda way, _: seen.extend(["kernel"] * 3 * way))
    run = Counted()

    def launches(call):
        call()
        return [SimpleNamespace(name=name) for name in seen]

    run.launches = launches
    script.count_launches(run, {"a": 9, "a, compiled": 2, "b, compiled": 0}, ())
    found = {(subject, dict(where)["part"]): n for (_, subject, where), n in run.found.items()}
    assert found == {("a, compiled", "forward"): 2, ("a, compiled", "step"): 6,
                     ("b, compiled", "forward"): 0, ("b, compiled", "step"): 0}  # fmt: skip


def test_one_thread_is_for_what_is_within_and_all_are_back_afterwards(artifact):
    threads = torch.get_num_threads()
    with artifact.training.one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == threads


def test_beside_a_time_on_the_cpu_stands_the_number_of_its_operations(artifact):
    run = Counted()
    artifact.reproduce.on_cpu(run, 4, 16, 8)
    where = {"part": "quantisers", "place": "cpu", "tokens": 4, "width": 16, "out": 8}
    found = {name: run.of("operations", name, **where)
             for name in ("naive", "functions", "round only")}  # fmt: skip
    assert found["functions"] < found["naive"] < found["round only"]


def test_a_weight_is_finite_also_where_the_even_draw_is_at_its_end(artifact, monkeypatch):
    """One in 2**24 draws is exactly zero, of which -1 is made."""
    monkeypatch.setattr(torch, "rand", lambda *size, **_: torch.zeros(*size))
    for distribution in artifact.gradients.DISTRIBUTIONS:
        source = torch.Generator().manual_seed(1)
        assert artifact.gradients.drawn(distribution, 8, source, CPU).isfinite().all()
