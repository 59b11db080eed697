"""Does the clipped gradient train better? Two toy tasks on the CPU and a language model, paired by seed.

Each process has its own seed, and in it every way starts from the same weights and sees the same batches
in the same order: a run of a record is one pair.
"""

# ruff: noqa: N812 - F is torch's custom
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from gradients import cosine
from model import Shape, Trainer, initial, windows
from shared.bitnet_variants import (
    DETACHED,
    FUNCTIONS,
    NAIVE,
    NORMED,
    ROUND,
    BitLinear,
    Way,
    ternary,
)
from text import corpus
from torch import nn

RULES = {
    "functions": FUNCTIONS,
    "naive": NAIVE,
    "round only": ROUND,
    "round only, scales detached": DETACHED,
}
"""The naive way has the Functions' gradient and other last bits: what it differs by is chance."""
FULL = Shape(width=128, heads=4, layers=2, context=64, batch=32, steps=400)
TINY = Shape(width=16, heads=2, layers=1, context=8, batch=2, steps=4)
LETTERS_LEARNT, LETTERS_KEPT = 400_000, 50_000
EPOCHS, BATCHES, BATCH, WIDTH, HIDDEN, CLASSES = 50, 4, 64, 16, 64, 4
EVERY = 80
HALVES = {
    "round only, weight's scale detached": Way(NORMED.norm, ROUND.activation, DETACHED.weight),
    "round only, activation's factor detached": Way(NORMED.norm, DETACHED.activation, ROUND.weight),
}
"""Which of the two scales' gradients it is that matters."""
LEARNERS = {"linear, normed": NORMED, **RULES, **HALVES}


@contextmanager
def one_thread():
    """Within it the CPU works with one thread: nets so small have nothing to share out."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def toys(run):
    """Train small nets on two tasks, and compare each rule with the identity's along the curve."""
    for task in ("regression", "classification"):
        losses = {name: toy(way, task, run.seed) for name, way in RULES.items()}
        last = {name: found[-1] for name, found in losses.items()}
        where = {"task": task, "epochs": EPOCHS}
        for name, found in losses.items():
            record_curve(run, name, found, task)
            if name != "functions":
                pairs = zip(found, losses["functions"], strict=True)
                apart = [abs(one - two) / two for one, two in pairs]
                run.count("along_curve", max(apart), unit="fraction", subject=name, **where)
                run.count("at_end", apart[-1], unit="fraction", subject=name, **where)
        record_ratios(run, last, **where)
        scales_worth(run, last, task)


def without_adam(run):
    """Train on the classification with plain momentum, in which a small gradient makes a small step."""
    task = "classification with momentum"
    losses = {name: toy(way, task, run.seed) for name, way in RULES.items()}
    last = {name: found[-1] for name, found in losses.items()}
    for name, found in losses.items():
        record_curve(run, name, found, task)
    record_ratios(run, last, task=task, epochs=EPOCHS)
    scales_worth(run, last, task)


def record_ratios(run, last, **where):
    """Record the last losses over that of the identity."""
    for name, loss in last.items():
        if name != "functions":
            ratio = loss / last["functions"]
            run.count("loss_ratio", ratio, unit="ratio", subject=name, **where)


def scales_worth(run, losses, task):
    """Record the last loss with the scales detached over that with their gradients."""
    name = "round only, scales detached"
    found = losses[name] / losses["round only"]
    run.count("detached_ratio", found, unit="ratio", subject=name, task=task)


def optimiser_of(model, task):
    """Return Adam, or plain momentum where the task's name says so."""
    if task.endswith("momentum"):
        return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    return torch.optim.Adam(model.parameters(), lr=3e-3)


def toy(way, task, seed):
    """Return the mean loss of each epoch of a net of two layers."""
    source = torch.Generator().manual_seed(seed)
    x = torch.randn(BATCHES, BATCH, WIDTH, generator=source)
    if task == "regression":
        y, outputs, measure = (
            torch.sin(x[..., :4].sum(-1, keepdim=True)) + x[..., 4:5],
            1,
            F.mse_loss,
        )
    else:
        teacher = torch.randn(WIDTH, CLASSES, generator=source)
        y, outputs, measure = (x @ teacher).argmax(-1), CLASSES, F.cross_entropy
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(
            BitLinear(way, WIDTH, HIDDEN), nn.ReLU(), BitLinear(way, HIDDEN, outputs)
        )
    optimiser = optimiser_of(model, task)
    losses = []
    for _ in range(EPOCHS):
        total = 0.0
        for inputs, wanted in zip(x, y, strict=True):
            loss = measure(model(inputs), wanted)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item()
        losses.append(total / BATCHES)
    return losses


def record_curve(run, name, losses, task):
    """Record every second epoch's loss."""
    for epoch in range(0, EPOCHS, 2):
        run.count("loss", losses[epoch], unit="", subject=name, step=epoch + 1, task=task)


# region: language
def language(run):
    """Train the language model by each rule and in full precision, and compare on letters kept aside."""
    shape = TINY if run.tiny else FULL
    batches, kept = letters(run, shape)
    models = {name: initial(way, shape, run.seed, run.device) for name, way in LEARNERS.items()}
    losses = learn(run, models, batches, kept)
    for name in RULES:
        describe(run, name, models[name], kept, shape)
    record_ratios(run, losses, task="language", steps=shape.steps)
    scales_worth(run, losses, "language")


# endregion


def letters(run, shape):
    """Return the batches to learn, which the seed chooses, and the windows kept aside, always the same."""
    text = corpus(LETTERS_LEARNT + LETTERS_KEPT)
    source = torch.Generator().manual_seed(run.seed)
    batches = windows(text[:LETTERS_LEARNT], shape, shape.steps, source)
    kept = windows(text[LETTERS_LEARNT:], shape, 16, torch.Generator().manual_seed(0))
    return batches.to(run.device), kept.flatten(0, 1).to(run.device)


def learn(run, models, batches, kept):
    """Train all models on the same batches, side by side, and return their last losses by name."""
    trainers = {name: Trainer(model, batches[0]) for name, model in models.items()}
    for number, window in enumerate(batches):
        if number % EVERY == 0:
            record_losses(run, trainers, kept, number)
        for trainer in trainers.values():
            trainer.step(window)
    for name, trainer in trainers.items():
        run.count("replayed", trainer.replayed, unit="", subject=name, task="language")
    return record_losses(run, trainers, kept, len(batches))


def record_losses(run, trainers, kept, step):
    """Record the loss of each model on what is kept aside, and return them by name."""
    found = {}
    for name, trainer in trainers.items():
        trainer.join()
        found[name] = held_out(trainer.model, kept)
        run.count("loss", found[name], unit="", subject=name, step=step, task="language")
    return found


@torch.no_grad()
def held_out(model, kept):
    """Return the mean loss over the windows kept aside."""
    return model.loss(kept).item()


def describe(run, name, model, kept, shape):
    """How many weights are saturated at the end, and how the rules' gradients lie there."""
    weights = model.bitnet_weights()
    beyond = sum(int((each.abs() > 1.5 * ternary(each)[1]).sum()) for each in weights)
    share = beyond / sum(each.numel() for each in weights)
    where = {"task": "language", "steps": shape.steps}
    run.count("saturated", share, unit="fraction", subject=name, **where)
    found = {rule: gradient(model, way, kept[: shape.batch]) for rule, way in RULES.items()}
    scale = (found["round only"] - found["round only, scales detached"]).norm()
    part = float(scale / found["round only, scales detached"].norm())
    run.count("scale_gradient", part, unit="fraction", subject=name, **where)
    run.count(
        "gradient_cosine",
        cosine(found["round only"], found["functions"]),
        unit="",
        subject=name,
        **where,
    )


def gradient(model, way, window):
    """Return the gradient of all quantised weights, in one vector, were the model of another way."""
    layers = [each for each in model.modules() if isinstance(each, BitLinear)]
    before = [each.way for each in layers]
    for each in layers:
        each.way = way
    found = torch.autograd.grad(model.loss(window), model.bitnet_weights())
    for each, own in zip(layers, before, strict=True):
        each.way = own
    return torch.cat([each.flatten() for each in found]).double()
