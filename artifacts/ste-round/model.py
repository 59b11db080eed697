"""Small character language models, several at once, whose linear layers are BitNet's, and what trains them.

Embedding, attention's product and the last layer are as usual; queries, keys, values, the output of
attention and both layers of the perceptron are of the rule under study.
"""

# ruff: noqa: D102, N812 - forward is a module's, F is torch's custom
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from many import ManyLinear, even, norm
from replay import Repeated
from text import LETTERS
from torch import nn

EAGER_STEPS = 3


@dataclass(frozen=True)
class Shape:
    """Pairs, width, heads, layers, context, batch, and steps of the training."""

    pairs: int
    width: int
    heads: int
    layers: int
    context: int
    batch: int
    steps: int


class Block(nn.Module):
    """Attention and a perceptron, each added to its input; every layer brings its own norm."""

    def __init__(self, rule, shape):
        super().__init__()
        self.heads, self.context = shape.heads, shape.context
        pairs, width = shape.pairs, shape.width
        self.read = ManyLinear(rule, pairs, width, 3 * width)
        self.write = ManyLinear(rule, pairs, width, width)
        self.up = ManyLinear(rule, pairs, width, 4 * width)
        self.down = ManyLinear(rule, pairs, 4 * width, width)

    def forward(self, x):
        pairs, letters, width = x.shape
        parts = self.read(x).view(-1, self.context, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.write(seen.transpose(1, 2).reshape(pairs, letters, width))
        return x + self.down(F.gelu(self.up(x)))


class Models(nn.Module):
    """Letters [P, B, L] to scores of the next letter [P, B L, letters], L being the context."""

    def __init__(self, rule, shape):
        super().__init__()
        pairs, width = shape.pairs, shape.width
        self.letters = nn.Parameter(torch.randn(pairs, len(LETTERS), width))
        self.places = nn.Parameter(torch.randn(pairs, shape.context, width))
        self.blocks = nn.Sequential(*(Block(rule, shape) for _ in range(shape.layers)))
        self.gain = nn.Parameter(torch.ones(pairs, 1, width))
        self.last = even(pairs, len(LETTERS), width)
        bound = width**-0.5
        self.bias = nn.Parameter(torch.empty(pairs, 1, len(LETTERS)).uniform_(-bound, bound))

    def forward(self, letters):
        pairs = letters.shape[0]
        own = torch.arange(pairs, device=letters.device).view(-1, 1, 1) * len(LETTERS)
        x = F.embedding(letters + own, self.letters.flatten(0, 1)) + self.places[:, None]
        x = norm(self.blocks(x.flatten(1, 2)), self.gain)
        return torch.baddbmm(self.bias, x, self.last.transpose(1, 2))

    def losses(self, window):
        """Return each model's mean loss over windows [P, B, L + 1]."""
        wanted = window[..., 1:].flatten()
        each = F.cross_entropy(self(window[..., :-1]).flatten(0, 1), wanted, reduction="none")
        return each.view(len(window), -1).mean(1)

    def layers(self):
        """Return the layers that are quantised."""
        return [each for each in self.modules() if isinstance(each, ManyLinear)]

    def bitnet_weights(self):
        """Return the weights that are quantised."""
        return [each.weight for each in self.layers()]


def windows(text, shape, count, source):
    """Draw `count` batches of windows for every pair, [count, P, batch, context + 1]."""
    size = (count, shape.pairs, shape.batch)
    starts = torch.randint(len(text) - shape.context - 1, size, generator=source)
    return text[starts[..., None] + torch.arange(shape.context + 1)]


def initial(rule, shape, seed, device):
    """Return models whose first weights depend on the seed alone, not on the rule."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Models(rule, shape).to(device)


class Trainer:
    """Models with AdamW, a step at a time; on a GPU it is captured as a CUDA graph and replayed."""

    def __init__(self, model, batch):
        """`batch` is a first window, for its shape."""
        self.model = model
        own = {"fused": True, "capturable": True} if batch.is_cuda else {}
        options = {"lr": 2e-3, "betas": (0.9, 0.95), "weight_decay": 0.01, **own}
        self.optimiser = torch.optim.AdamW(model.parameters(), **options)
        self.window = torch.empty_like(batch)
        self.steps = Repeated(self._work, on_gpu=batch.is_cuda, eager=EAGER_STEPS)

    def step(self, window):
        """Make one step on a batch."""
        self.steps.again(before=lambda: self.window.copy_(window))

    def _work(self):
        self.optimiser.zero_grad(set_to_none=True)
        self.model.losses(self.window).sum().backward()
        self.optimiser.step()
