"""The queue of sparse attention without a GPU: blocks take its steps in any order (`queueing`)."""

import random
from collections import Counter

import pytest
from borrowed import modules_of
from queueing import BLOCKS, FOLDER, TILE, WIDTH, Block, Launch, run, token_state


@pytest.fixture(scope="module")
def plan():
    """The kernel's own numbers."""
    with modules_of(FOLDER.name) as load:
        yield load("kernel").QueuePlan()


def contest_like(tokens, seed):
    """Make lengths like the public ones: most short, some full."""
    chance = random.Random(seed)
    return [
        chance.choice([1, 4, 9, 17, 18, 52, 92, 288, 411, 1044, 1639, 2048]) for _ in range(tokens)
    ]


LISTS = {
    "full": [2048] * 64,
    "few": [2048] * 17,
    "one": [2048],
    "one row each": [1] * 133,
    "none has a row": [0] * 200,
    "ragged": contest_like(64, 1),
    "many ragged": contest_like(256, 2),
    "as many as blocks and one": [2048] * 133,
    "half as many again": [2048] * 200,
    "more than a thief sees": contest_like(400, 3),
    "one long among empty ones": [0] * 40 + [2048] + [0] * 23,
    "the last is long": [0] * 255 + [2048],
    "edges of a tile": [63, 64, 65, 127, 128, 129, 0, 1, 1985, 1984, 2047, 2048] * 3,
}


@pytest.mark.parametrize("order", ["at random", "in bursts", "some late", "one by one"])
@pytest.mark.parametrize("name", LISTS)
def test_every_tile_is_taken_once_and_every_token_is_answered_once(plan, name, order):
    counts = LISTS[name]
    states = [[token_state() for _ in range(len(counts) + 1)] for _ in range(2)]
    for seed in range(2):  # a launch finds the state as the one before has left it
        launch = Launch(counts, plan, *states)
        blocks = run(launch, order, seed)
        for count, answers in zip(counts, launch.answers, strict=True):
            assert len(answers) == 1
            assert sorted(answers[0]) == list(range(-(-count // TILE)))
        assert all(state == token_state() for state in launch.next_state)
        left = Counter(place // plan.leavings for place in launch.partial)
        assert max(left.values(), default=0) <= plan.leavings
        of_a_token = max(state.left for state in launch.state)
        assert of_a_token <= min(WIDTH // TILE, -(-BLOCKS // len(counts)) + plan.thieves)
        assert all(state.taken < 2**16 > state.joined for state in launch.state[:-1])
        assert all(block.looks <= plan.looks for block in blocks)
        states.reverse()


def test_a_long_list_is_shared_by_the_blocks_that_have_nothing_to_do(plan):
    counts = LISTS["one long among empty ones"]
    states = [[token_state() for _ in range(len(counts) + 1)] for _ in range(2)]
    launch = Launch(counts, plan, *states)
    run(launch, "at random", 1)
    assert launch.state[40].left > 5


def test_blocks_that_look_together_are_spread_over_the_lists(plan):
    """Thirty lists of 20 tiles and one of 2: 93 blocks look at once, and each finds its own."""
    state = [token_state() for _ in range(32)]
    for token in range(31):
        state[token].tiles, state[token].taken = (32, 12) if token < 30 else (32, 30)
    launch = Launch([2048] * 31, plan, state, [])
    found = Counter()
    for number in range(93):
        finder = Block(number, launch).find_list()
        try:
            while True:
                next(finder)
        except StopIteration as stop:
            found[stop.value] += 1
    assert sum(found.values()) == 93
    assert max(found.values()) <= 5
    assert all(found[token] >= 1 for token in range(30))
    assert found[30] <= 2
