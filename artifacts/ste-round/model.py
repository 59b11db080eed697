"""A small character language model whose linear layers are BitNet's, and the loop that trains it.

Embedding, attention's product and the last layer are as usual; queries, keys, values, the output of
attention and both layers of the perceptron are of the way under study.
"""

# ruff: noqa: D102, N812 - forward is a module's, F is torch's custom
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from shared.bitnet_variants import BitLinear
from text import LETTERS
from torch import nn

EAGER_STEPS = 3


@dataclass(frozen=True)
class Shape:
    """Width, heads, layers, context, batch, and steps of the training."""

    width: int
    heads: int
    layers: int
    context: int
    batch: int
    steps: int


class Block(nn.Module):
    """Attention and a perceptron, each added to its input; every BitLinear brings its own norm."""

    def __init__(self, way, shape):
        super().__init__()
        self.heads = shape.heads
        self.read = BitLinear(way, shape.width, 3 * shape.width)
        self.write = BitLinear(way, shape.width, shape.width)
        self.up = BitLinear(way, shape.width, 4 * shape.width)
        self.down = BitLinear(way, 4 * shape.width, shape.width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.read(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.write(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(x)))


class Model(nn.Module):
    """Letters [B, L] to scores of the next letter [B, L, letters]."""

    def __init__(self, way, shape):
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), shape.width)
        self.places = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.Sequential(*(Block(way, shape) for _ in range(shape.layers)))
        self.last = nn.Sequential(
            nn.RMSNorm(shape.width, eps=1e-5), nn.Linear(shape.width, len(LETTERS))
        )

    def forward(self, letters):
        places = torch.arange(letters.shape[1], device=letters.device)
        return self.last(self.blocks(self.letters(letters) + self.places(places)))

    def loss(self, window):
        """Return the mean loss over windows [B, L + 1]."""
        scores = self(window[:, :-1])
        return F.cross_entropy(scores.flatten(0, 1), window[:, 1:].flatten())

    def bitnet_weights(self):
        """Return the weights that are quantised."""
        return [each.weight for each in self.modules() if isinstance(each, BitLinear)]


def windows(text, shape, count, source):
    """Draw `count` batches of windows, [count, batch, context + 1]."""
    starts = torch.randint(len(text) - shape.context - 1, (count, shape.batch), generator=source)
    return text[starts[..., None] + torch.arange(shape.context + 1)]


def initial(way, shape, seed, device):
    """Return a model whose first weights depend on the seed alone, not on the way."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Model(way, shape).to(device)


class Trainer:
    """A model with AdamW; on a GPU a step is captured once as a CUDA graph and replayed.

    Each trainer works on a stream of its own, so that several train side by side: steps this small leave
    most of a GPU idle. A graph is captured on the stream that it is replayed on, for cuBLAS keeps what it
    works in by stream, and two replays at a time must not share it. `replayed` says whether steps are
    replays: where the capture fails, all are eager.
    """

    def __init__(self, model, batch):
        """`batch` is a first window, for its shape."""
        self.model = model
        self.on_gpu = batch.is_cuda
        own = {"fused": True, "capturable": True} if self.on_gpu else {}
        options = {"lr": 2e-3, "betas": (0.9, 0.95), "weight_decay": 0.01, **own}
        self.optimiser = torch.optim.AdamW(model.parameters(), **options)
        self.window = torch.empty_like(batch)
        self.side = torch.cuda.Stream() if self.on_gpu else None
        self.graph, self.replayed, self.made = None, False, 0

    def step(self, window):
        """Make one step on a batch; the first ones are eager, for what they allocate."""
        if not self.on_gpu:
            self.window.copy_(window)
            self._work()
            return
        if self.made == EAGER_STEPS:
            self._capture()
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.window.copy_(window)
            if self.replayed:
                self.graph.replay()
            else:
                self._work()
        self.made += 1

    def join(self):
        """Let the current stream wait for the steps made so far."""
        if self.on_gpu:
            torch.cuda.current_stream().wait_stream(self.side)

    def _capture(self):
        self.optimiser.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self.side):
                self._work()
        except RuntimeError as error:
            print(f"the training step cannot be captured: {error}")  # noqa: T201 - for who reads it
        else:
            self.graph, self.replayed = graph, True

    def _work(self):
        self.optimiser.zero_grad(set_to_none=True)
        self.model.loss(self.window).backward()
        self.optimiser.step()
