"""The queue of sparse attention without a GPU: blocks take its steps in any order (`queueing`)."""

import random
from collections import Counter

import pytest
from queueing import TILE, Block, Launch, run, token_state
from shared.dsa_decode.plan import QUEUED


@pytest.fixture(scope="module")
def plan():
    """The kernel's own numbers."""
    return QUEUED


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


def ended(steps):
    """Run steps to their end, and return what they come to."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


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
        assert all(nth <= plan.thieves for _, nth in launch.partial)
        assert all(state.taken < 2**16 > state.joined for state in launch.state[:-1])
        assert all(block.looks <= plan.looks for block in blocks)
        states.reverse()


def test_a_long_list_is_shared_by_the_blocks_that_have_nothing_to_do(plan):
    counts = LISTS["one long among empty ones"]
    states = [[token_state() for _ in range(len(counts) + 1)] for _ in range(2)]
    launch = Launch(counts, plan, *states)
    run(launch, "at random", 1)
    assert len(launch.state[40].parts) > 5


def test_blocks_that_look_together_are_spread_over_the_lists(plan):
    """Thirty lists of 20 tiles and one of 2: 93 blocks look at once, and each finds its own."""
    state = [token_state() for _ in range(32)]
    for token in range(31):
        state[token].tiles, state[token].taken = (32, 12) if token < 30 else (32, 30)
    launch = Launch([2048] * 31, plan, state, [])
    found = Counter(ended(Block(number, launch).find_list(begins=False)) for number in range(93))
    assert sum(found.values()) == 93
    assert max(found.values()) <= 5
    assert all(found[token] >= 1 for token in range(30))
    assert found[30] <= 2


def test_blocks_beyond_the_tokens_begin_where_most_is_left(plan):
    """Of 64 lists, 16 full and 48 of two tiles: each full one has four or five blocks from the start."""
    state = [token_state() for _ in range(65)]
    for token in range(64):
        state[token].tiles = 2 if token % 4 else 32
    launch = Launch([2048] * 64, plan, state, [])
    found = Counter(
        ended(Block(number, launch).find_list(begins=True)) for number in range(64, 132)
    )
    assert set(found) == {token for token in range(64) if token % 4 == 0}
    assert set(found.values()) == {4, 5}


def test_full_lists_have_as_many_blocks_each(plan):
    state = [token_state() for _ in range(34)]
    for token in range(33):
        state[token].tiles = 32
    launch = Launch([2048] * 33, plan, state, [])
    found = Counter(
        ended(Block(number, launch).find_list(begins=True)) for number in range(33, 132)
    )
    assert found == dict.fromkeys(range(33), 3)


def test_a_block_beyond_the_tokens_does_not_wait_for_a_list_that_nobody_reads(plan):
    state = [token_state() for _ in range(3)]
    state[0].tiles = 32
    finder = Block(5, Launch([2048] * 2, plan, state, [])).find_token(begins=True)
    assert ended(finder) == (0, True)
