"""Two toy tasks, each learnt by many pairs of small nets at once.

In a pair every rule starts from the same weights and sees the same batches in the same order. What a
process records is the mean over its pairs, with its standard error.
"""

# ruff: noqa: D102, N812 - forward is a module's, F is torch's custom
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from many import HALVES, RULES, ManyLinear, geometric
from replay import Repeated
from torch import nn

BATCHES, BATCH, WIDTH, HIDDEN, CLASSES = 4, 64, 16, 64, 4
MOMENTUM_RATES = (0.02, 0.08, 0.24)


@dataclass(frozen=True)
class Task:
    """What is learnt, by which optimiser at which rate, and by how many pairs for how long."""

    name: str
    rate: float
    pairs: int
    epochs: int
    momentum: bool = False

    @property
    def kind(self):
        return self.name.partition(" ")[0]

    def optimiser(self, parameters, *, on_gpu):
        """Return Adam, or plain momentum."""
        if self.momentum:
            return torch.optim.SGD(parameters, lr=self.rate, momentum=0.9)
        own = {"capturable": True} if on_gpu else {}
        return torch.optim.Adam(parameters, lr=self.rate, **own)


class Nets(nn.Module):
    """Nets of two layers; they start as the seed says, whatever the rule."""

    def __init__(self, rule, pairs, outputs, seed):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.first = ManyLinear(rule, pairs, WIDTH, HIDDEN)
            self.second = ManyLinear(rule, pairs, HIDDEN, outputs)

    def forward(self, x):
        return self.second(F.relu(self.first(x)))


def drawn(task, seed):
    """Return inputs [batches, P, batch, width] and what is wanted of them."""
    source = torch.Generator().manual_seed(seed)
    x = torch.randn(BATCHES, task.pairs, BATCH, WIDTH, generator=source)
    if task.kind == "regression":
        return x, torch.sin(x[..., :4].sum(-1, keepdim=True)) + x[..., 4:5]
    teacher = torch.randn(task.pairs, WIDTH, CLASSES, generator=source)
    return x, (x @ teacher).argmax(-1)


def losses_of(task, outputs, wanted):
    """Return each net's mean loss on a batch, [P]."""
    if task.kind == "regression":
        return (outputs - wanted).square().mean((-2, -1))
    each = F.cross_entropy(outputs.flatten(0, 1), wanted.flatten(), reduction="none")
    return each.view(wanted.shape).mean(-1)


class Learner:
    """Nets of one rule, an epoch at a time."""

    def __init__(self, rule, task, data, seed):
        self.task, self.data = task, data
        on_gpu = data[0].is_cuda
        outputs = 1 if task.kind == "regression" else CLASSES
        self.nets = Nets(rule, task.pairs, outputs, seed).to(data[0].device)
        self.optimiser = task.optimiser(self.nets.parameters(), on_gpu=on_gpu)
        self.mean = torch.zeros(task.pairs, device=data[0].device)
        self.curve = self.mean.new_zeros(task.epochs, task.pairs)
        self.epochs = Repeated(self._epoch, on_gpu=on_gpu, eager=1)

    def learn(self, epoch):
        """Make an epoch, and keep each net's mean loss in it."""
        self.epochs.again(after=lambda: self.curve[epoch].copy_(self.mean))

    def _epoch(self):
        self.mean.zero_()
        for inputs, wanted in zip(*self.data, strict=True):
            self.optimiser.zero_grad(set_to_none=True)
            losses = losses_of(self.task, self.nets(inputs), wanted)
            losses.sum().backward()
            self.optimiser.step()
            self.mean += losses.detach() / BATCHES


# region: toys
def learnt(rules, task, seed, device):
    """Return each rule's losses [epochs, P], trained side by side on the same data."""
    data = [each.to(device) for each in drawn(task, seed)]
    learners = {name: Learner(rule, task, data, seed) for name, rule in rules.items()}
    for epoch in range(task.epochs):
        for learner in learners.values():
            learner.learn(epoch)
    for learner in learners.values():
        learner.epochs.end()
    return {name: learner.curve.double().cpu() for name, learner in learners.items()}


# endregion


def toys(run):
    """Learn the tasks by each rule, and compare each with the identity: first by Adam, then by momentum."""
    pairs, epochs = run.sizes(full=[(256, 50)], tiny=[(12, 6)])[0]
    for name, rate, rules in (
        ("regression", 3e-3, RULES),
        ("classification", 3e-3, RULES | HALVES),
    ):
        losses = learnt(rules, Task(name, rate, pairs, epochs), run.seed, run.device)
        where = {"task": name, "pairs": pairs}
        record(run, losses, where)
        record_distances(run, losses, where)
    for rate in MOMENTUM_RATES:
        name = f"classification with momentum {rate}"
        task = Task(name, rate, pairs, epochs, momentum=True)
        losses = learnt(RULES, task, run.seed, run.device)
        record(run, losses, {"task": name, "pairs": pairs})


def record(run, losses, where):
    """Record the curves, and the last losses over that of the identity, over all pairs."""
    for name, found in losses.items():
        for epoch in range(0, len(found), 7):
            mean = geometric(found[epoch])
            run.count("loss", mean, unit="", subject=name, step=epoch + 1, **where)
        if name != "functions":
            record_ratio(run, "loss_ratio", found[-1] / losses["functions"][-1], name, where)
        if "detached" in name:
            record_ratio(run, "detached_ratio", found[-1] / losses["round only"][-1], name, where)


def record_ratio(run, metric, ratios, name, where):
    """Record the mean of the pairs' ratios [P], its standard error, and how many are below one."""
    run.count(metric, geometric(ratios), unit="ratio", subject=name, **where)
    if len(ratios) > 1:
        error = ratios.log().std() / len(ratios) ** 0.5
        run.count(f"{metric}_error", error, unit="fraction", subject=name, **where)
    below = (ratios < 1).double().mean()
    run.count(f"{metric}_below", below, unit="fraction", subject=name, **where)


def record_distances(run, losses, where):
    """Record how far a rule lies from the identity: the mean of the pairs, and single pairs in the mean."""
    for name, found in losses.items():
        if name == "functions":
            continue
        ratios = found / losses["functions"]
        means = (geometric(ratios.T) - 1).abs()
        run.count("along_curve", means.max(), unit="fraction", subject=name, **where)
        run.count("at_end", means[-1], unit="fraction", subject=name, **where)
        single = (ratios - 1).abs()
        run.count("pair_along", single.amax(0).mean(), unit="fraction", subject=name, **where)
        run.count("pair_end", single[-1].mean(), unit="fraction", subject=name, **where)
