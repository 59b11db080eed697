"""A small character language model, and the text that it learns: generated, so that anyone has it.

The text is short scenes: people get things, give them away and are asked about, and small sums are done;
to predict a character well, a model must remember who has what.
"""

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from shared.graph_replay import graphed
from torch import Tensor, nn
from torch.nn import functional

PEOPLE = ("mira", "tom", "ada", "noor", "ivan", "lena", "omar", "suki", "pablo", "wren")
THINGS = ("box", "lamp", "coin", "map", "key", "drum", "rope", "bell", "book", "kite")
COLOURS = ("red", "blue", "green", "black", "white", "amber", "grey", "pink")
LETTERS = sorted(set("\n .=+?abcdefghijklmnopqrstuvwxyz0123456789"))


def scene(draw: random.Random) -> str:
    """Write one scene: a thing changes hands, and a sum."""
    first, second, third = draw.sample(PEOPLE, 3)
    thing = f"{draw.choice(COLOURS)} {draw.choice(THINGS)}"
    other = f"{draw.choice(COLOURS)} {draw.choice(THINGS)}"
    one, two = draw.randrange(50), draw.randrange(50)
    return (
        f"{first} has the {thing}. {third} has the {other}. {first} gives the {thing} to {second}. "
        f"who has the {thing}? {second}. who has the {other}? {third}. {one} + {two} = {one + two}.\n"
    )


@functools.cache
def text(length: int, seed: int) -> Tensor:
    """Return at least `length` characters as numbers, int64."""
    draw, parts, written = random.Random(seed), [], 0
    while written < length:
        parts.append(scene(draw))
        written += len(parts[-1])
    places = {letter: place for place, letter in enumerate(LETTERS)}
    return torch.tensor([places[letter] for letter in "".join(parts)])


@dataclass(frozen=True)
class Size:
    """What is trained: layers of a width, on batches of so many texts of so many characters."""

    layers: int = 4
    width: int = 256
    heads: int = 4
    context: int = 128
    batch: int = 64
    steps: int = 250
    every: int = 50
    letters: int = 1_000_000
    rate: float = 2e-3


Linear = Callable[[int, int], nn.Module]


class Block(nn.Module):
    """Attention and a feed-forward part; each linear layer has its own norm."""

    def __init__(self, size: Size, linear: Linear) -> None:
        """Make the parts with `linear(inputs, outputs)`."""
        super().__init__()
        self.heads = size.heads
        self.mixing, self.mixed = linear(size.width, 3 * size.width), linear(size.width, size.width)
        self.up, self.down = linear(size.width, 4 * size.width), linear(4 * size.width, size.width)

    def forward(self, x: Tensor) -> Tensor:
        """Return x with both parts added."""
        parts = self.mixing(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.mixed(seen.transpose(1, 2).flatten(-2))
        return x + self.down(functional.relu(self.up(x)).square())


class Model(nn.Module):
    """Predicts the next character."""

    def __init__(self, size: Size, linear: Linear) -> None:
        """Make the blocks with `linear(inputs, outputs)`."""
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), size.width)
        self.places = nn.Embedding(size.context, size.width)
        self.blocks = nn.Sequential(*(Block(size, linear) for _ in range(size.layers)))
        self.norm = nn.RMSNorm(size.width, eps=1e-5)
        self.head = nn.Linear(size.width, len(LETTERS), bias=False)

    def forward(self, letters: Tensor) -> Tensor:
        """Return the mean loss in nats of each next character of `letters` [batch, context + 1]."""
        asked = letters[:, :-1]
        x = self.letters(asked) + self.places.weight[: asked.shape[1]]
        scores = self.head(self.norm(self.blocks(x))).float()
        return functional.cross_entropy(scores.flatten(0, 1), letters[:, 1:].flatten())


def batches(text: Tensor, size: Size, count: int, seed: int) -> Tensor:
    """Return `count` batches drawn from the text: [count, batch, context + 1]."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(
        len(text) - size.context - 1, (count, size.batch, 1), generator=generator
    )
    return text[starts + torch.arange(size.context + 1)]


def train(
    linear: Linear, size: Size, device: torch.device, seed: int
) -> tuple[dict[int, float], float]:
    """Train one model; return its loss at each of `every` steps, and its loss on text not trained on.

    Weights are drawn alike for every kind of layer; batches are the same for the same seed.
    """
    torch.manual_seed(seed)
    model = Model(size, linear).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=size.rate, capturable=device.type == "cuda"
    )
    learned, unseen = text(size.letters, 1), text(size.letters // 10, 2)
    drawn = batches(learned, size, size.steps, seed).to(device)
    buffer = drawn[0].clone()

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
            loss = model(buffer)
        loss.backward()
        optimizer.step()
        return loss.detach()

    go = graphed(step) if device.type == "cuda" else step
    losses = {}
    for number in range(1, size.steps + 1):
        buffer.copy_(drawn[number - 1])
        loss = go()
        if number % size.every == 0:
            losses[number] = float(loss)
    asked = batches(unseen, size, 8, 3).to(device)
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
        return losses, sum(float(model(each)) for each in asked) / len(asked)
