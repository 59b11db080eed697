"""Does the clipped gradient train a language model better? Pairs by seed, several in a process.

In a pair every rule starts from the same weights and sees the same batches in the same order.
"""

import torch
from gradients import cosine
from many import LINEAR, RULES, geometric, ternaries
from model import Shape, Trainer, initial, windows
from text import corpus
from toys import record_ratio

FULL = Shape(pairs=4, width=128, heads=4, layers=2, context=64, batch=32, steps=400)
TINY = Shape(pairs=2, width=16, heads=2, layers=1, context=8, batch=2, steps=4)
LETTERS_LEARNT, LETTERS_KEPT = 400_000, 50_000
EVERY = 80
LEARNERS = {
    "linear, normed": LINEAR,
    **{name: RULES[name] for name in ("functions", "naive", "round only")},
}


# region: language
def language(run):
    """Train language models by each rule and in full precision, and compare on letters kept aside."""
    shape = TINY if run.tiny else FULL
    batches, kept = letters(run, shape)
    models = {name: initial(rule, shape, run.seed, run.device) for name, rule in LEARNERS.items()}
    losses = learn(run, models, batches, kept)
    where = {"task": "language", "steps": shape.steps, "pairs": shape.pairs}
    for name in [each for each in LEARNERS if each in RULES]:
        describe(run, name, models[name], kept[:, : shape.batch], where)
    for name, found in losses.items():
        if name != "functions":
            record_ratio(run, "loss_ratio", found / losses["functions"], name, where)


# endregion


def letters(run, shape):
    """Return the batches to learn, which the seed chooses, and the windows kept aside, always the same."""
    text = corpus(LETTERS_LEARNT + LETTERS_KEPT)
    source = torch.Generator().manual_seed(run.seed)
    batches = windows(text[:LETTERS_LEARNT], shape, shape.steps, source)
    starts = torch.randint(
        LETTERS_KEPT - shape.context - 1, (512,), generator=torch.Generator().manual_seed(0)
    )
    kept = text[LETTERS_LEARNT:][starts[:, None] + torch.arange(shape.context + 1)]
    return batches.to(run.device), kept.to(run.device).expand(shape.pairs, -1, -1)


def learn(run, models, batches, kept):
    """Train all models on the same batches, side by side, and return their last losses by name, [P] each."""
    trainers = {name: Trainer(model, batches[0]) for name, model in models.items()}
    for number, window in enumerate(batches):
        if number % EVERY == 0:
            record_losses(run, trainers, kept, number)
        for trainer in trainers.values():
            trainer.step(window)
    for name, trainer in trainers.items():
        run.count("replayed", trainer.steps.replayed, unit="", subject=name, task="language")
    found = record_losses(run, trainers, kept, len(batches))
    for trainer in trainers.values():
        trainer.steps.end()
    return found


def record_losses(run, trainers, kept, step):
    """Record the losses of a rule's models on what is kept aside, in the mean, and return them by name."""
    found = {}
    for name, trainer in trainers.items():
        trainer.steps.join()
        found[name] = held_out(trainer.model, kept)
        mean = geometric(found[name])
        run.count("loss", mean, unit="", subject=name, step=step, task="language")
    return found


@torch.no_grad()
def held_out(model, kept):
    """Return each model's mean loss over the windows kept aside."""
    return model.losses(kept).double().cpu()


def describe(run, name, model, kept, where):
    """How many weights are saturated at the end, and how the rules' gradients lie there."""
    weights = model.bitnet_weights()
    beyond = sum(int((each.abs() > 1.5 * ternaries(each)[1]).sum()) for each in weights)
    share = beyond / sum(each.numel() for each in weights)
    run.count("saturated", share, unit="fraction", subject=name, **where)
    found = {other: gradient(model, rule, kept) for other, rule in RULES.items()}
    clipped = found["round only, scales detached"]
    part = float((found["round only"] - clipped).norm() / clipped.norm())
    run.count("scale_gradient", part, unit="fraction", subject=name, **where)
    along = cosine(found["round only"], found["functions"])
    run.count("gradient_cosine", along, unit="", subject=name, **where)


def gradient(model, rule, window):
    """Return the gradient of all quantised weights, in one vector, were the models of another rule."""
    before = [each.rule for each in model.layers()]
    for each in model.layers():
        each.rule = rule
    found = torch.autograd.grad(model.losses(window).sum(), model.bitnet_weights())
    for each, own in zip(model.layers(), before, strict=True):
        each.rule = own
    return torch.cat([each.flatten() for each in found]).double()
