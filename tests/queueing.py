"""The steps of `queue.cu`, one to one, without a GPU: what blocks know of each other, fetch and leave.

A block is three generators: the warps that fetch, and two of those that compute, which here meet less
often than on the GPU. Each gives way wherever another block, or another warp, might come between, and
says what it waits for: barriers of its own block, and nothing else, which is how the model shows that
nobody waits for a block that may not run.
"""

import random
import re
from pathlib import Path
from types import SimpleNamespace

FOLDER = Path(__file__).parents[1] / "artifacts" / "shared" / "dsa_decode"
SOURCE = (FOLDER / "queue.cu").read_text() + (FOLDER / "queue.cuh").read_text()
WIDTH, TILE, COMPUTING = 2048, 64, 2
END, STOP, NONE, STOLEN = "end", "stop", None, True
BLOCKS = 132


def constant(name):
    """Read a number from the kernel's source."""
    return int(re.search(rf"\b{name} = (\d+)", SOURCE)[1])


ITEMS, SEEN = constant("ITEMS"), 32 * constant("SEEN")


class Barrier:
    """An mbarrier: whoever waits for a parity sees only whether the phase that is under way has another."""

    def __init__(self, count):
        """Expect `count` arrivals a phase."""
        self.count = self.missing = count
        self.phases = 0

    def arrive(self):
        """Count in; the last one completes the phase."""
        self.missing -= 1
        if self.missing == 0:
            self.missing, self.phases = self.count, self.phases + 1

    def passed(self, parity):
        """Make a condition to wait for."""
        return lambda: self.phases % 2 != parity


def token_state():
    """Make what the blocks know of a token, as at launch; the ticket counter is one more of these."""
    return SimpleNamespace(taken=0, joined=0, tiles=0, answered=0, parts=frozenset())


class Launch:
    """What is in memory: the lists' lengths, the state, partial outputs and answers."""

    def __init__(self, counts, plan, state, next_state, blocks=BLOCKS):
        """Begin with the state that the launch before has left."""
        self.counts, self.tokens, self.plan, self.blocks = counts, len(counts), plan, blocks
        self.state, self.next_state = state, next_state
        self.first_seen = self.tokens - min(self.tokens, SEEN)
        self.partial = {}
        self.answers = [[] for _ in counts]


class Block:
    """A block's shared memory."""

    def __init__(self, number, launch):
        """Set the barriers up."""
        self.number, self.launch = number, launch
        stages = self.stages = launch.plan.stages
        self.arrived = [Barrier(1) for _ in range(stages)]
        self.freed = [Barrier(COMPUTING) for _ in range(stages)]
        self.asked, self.answered = (
            [Barrier(1), Barrier(1)],
            [Barrier(COMPUTING), Barrier(COMPUTING)],
        )
        self.told = [Barrier(1) for _ in range(ITEMS)]
        self.items, self.ring, self.queries = [None] * ITEMS, [None] * stages, [None, None]
        self.heard = [0] * COMPUTING
        self.tickets = launch.tokens > launch.blocks
        self.told_items = self.asked_queries = self.fetched = self.looks = 0

    def warps(self):
        """Make the generators: the warps that fetch, as one, and two that compute."""
        return [self.fetch_lists(), *(self.attend_lists(warp) for warp in range(COMPUTING))]

    # What the warps that fetch do: `fetch_lists` in the kernel, and what it calls.

    def tell(self, *item):
        """Tell the warps that compute; none of them may still have to read what was there."""
        assert self.told_items - min(self.heard) < ITEMS, "an item is lost"
        self.items[self.told_items % ITEMS] = item
        self.told[self.told_items % ITEMS].arrive()
        self.told_items += 1

    def ask(self, token):
        """Fetch the queries of a token, once those of the token before the last one are not needed."""
        turn = self.asked_queries % 2
        if self.asked_queries >= 2:
            yield self.answered[turn].passed((self.asked_queries // 2 - 1) % 2)
        self.queries[turn] = token
        self.asked[turn].arrive()
        self.asked_queries += 1

    def ask_for_tile(self, token):
        """Take the next tile of a list, if it has one."""
        state = self.launch.state[token]
        state.taken += 1
        return state.taken - 1

    def join(self, token):
        """Come as a thief, and say as which one."""
        state = self.launch.state[token]
        state.joined += 1
        return state.joined

    def find_list(self, begins):  # noqa: C901 - step by step as the kernel does it
        """Look for a list that has tiles left."""
        launch, plan = self.launch, self.launch.plan
        first = launch.first_seen
        looks = 0
        while (looks if begins else self.looks) < plan.looks:
            looks, self.looks = looks + 1, self.looks + (not begins)
            left, unread = {}, False
            for token in range(first, launch.tokens):
                if token % 32 == 0:
                    yield None
                seen = launch.state[token]
                worth = seen.joined < plan.thieves and seen.tiles >= seen.taken + plan.least
                left[token] = seen.tiles - seen.taken if worth else 0
                unread = unread or seen.tiles == 0
            if begins and unread:
                continue
            if begins:
                total = sum(left.values())
                left = {token: max(n * launch.blocks, total) - total for token, n in left.items()}
            total = sum(left.values())
            if total > 0:
                fraction = (self.number + launch.blocks * self.looks) * 0x9E3779B9 % 2**32
                at = fraction * total >> 32
                if begins:
                    beyond = launch.blocks - launch.tokens
                    at = (self.number - launch.tokens) * total // beyond
                    assert (beyond - 1) * total < 2**32, "a word holds it"
                for token in (
                    each for lane in range(32) for each in range(first + lane, launch.tokens, 32)
                ):
                    if at < left[token]:
                        return token
                    at -= left[token]
            if not unread:
                break
        return NONE

    def find_token(self, begins):
        """Find a token that nobody has begun, or one worth joining: (token, whether it is stolen)."""
        launch = self.launch
        if begins and (token := (yield from self.find_list(begins))) is not NONE:
            return token, STOLEN
        if self.tickets:
            yield None
            tickets = launch.state[launch.tokens]
            token = launch.blocks + tickets.taken
            tickets.taken += 1
            if token < launch.tokens:
                return token, not STOLEN
            self.tickets = False
        return (yield from self.find_list(begins=False)), STOLEN

    def fetch_lists(self):
        """Run the warps that fetch."""
        launch = self.launch
        token, begins = NONE, self.number >= launch.tokens
        if not begins:
            token, nth, ahead = self.number, 0, self.ask_for_tile(self.number)
        while True:
            if token is NONE:
                token, stolen = yield from self.find_token(begins)
                if token is NONE:
                    break
                yield None
                ahead = WIDTH  # none
                nth = self.join(token) if stolen else 0
                yield None
                if nth <= launch.plan.thieves:
                    ahead = self.ask_for_tile(token)
            asked_before = self.asked_queries
            if self.asked_queries == 0:
                yield from self.ask(token)
            yield None
            took, tiles = yield from self.take_tiles(token, ahead, asked_before)
            if self.asked_queries != asked_before:
                self.tell(END, token, took, tiles, nth)
            token, begins = NONE, False
        self.tell(STOP)

    def take_tiles(self, token, ahead, asked_before):
        """Fetch tiles of a list that has been read, until it has no more: (tiles taken, of how many)."""
        count, took = self.launch.counts[token], 0
        tiles = self.launch.state[token].tiles = max(-(-count // TILE), 1)
        while True:
            tile = ahead
            if tile < tiles and count > 0:
                self.tell(min(TILE, count - tile * TILE))
            yield None
            if tile >= tiles:
                return took, tiles
            ahead = self.ask_for_tile(token) if tile + 1 < tiles else WIDTH  # none
            if self.asked_queries == asked_before:
                yield from self.ask(token)
            took += 1
            if count == 0:
                continue
            slot = self.fetched % self.stages
            if self.fetched >= self.stages:
                yield self.freed[slot].passed((self.fetched // self.stages - 1) % 2)
            self.ring[slot] = (token, tile)
            self.arrived[slot].arrive()
            self.fetched += 1

    # What the warps that compute do: `attend_lists` in the kernel, and what it calls. The first writes.

    def hear(self, warp):
        """Wait for the next item."""
        nth = self.heard[warp]
        yield self.told[nth % ITEMS].passed(nth // ITEMS % 2)
        item = self.items[nth % ITEMS]
        self.heard[warp] += 1
        return item

    def leave(self, found, token, took, tiles, nth):
        """Leave what was found in memory; return all parts of the token if it was what still missed."""
        launch, state = self.launch, self.launch.state[token]
        assert token >= launch.first_seen, "there is room for it"
        assert (token, nth) not in launch.partial
        launch.partial[token, nth] = found
        yield None
        state.answered += took
        state.parts |= {nth}
        return state.parts if state.answered == tiles else frozenset()

    def weigh_parts(self, found, token, others):
        """Add what the others have left."""
        for nth in sorted(others):
            yield None
            found = found + self.launch.partial[token, nth]
        return found

    def attend_lists(self, warp):
        """Run a warp that computes."""
        launch, fetched, nth = self.launch, 0, 0
        if warp == 0:
            for each in range(self.number, launch.tokens + 1, launch.blocks):
                launch.next_state[each] = token_state()
        while (item := (yield from self.hear(warp))) != (STOP,):
            turn = nth % 2
            yield self.asked[turn].passed(nth // 2 % 2)
            found = []
            while item[0] != END:
                slot = fetched % self.stages
                yield self.arrived[slot].passed(fetched // self.stages % 2)
                token, tile = self.ring[slot]
                assert token == self.queries[turn]
                assert item[0] == min(TILE, launch.counts[token] - tile * TILE)
                found.append(tile)
                self.freed[slot].arrive()
                fetched += 1
                item = yield from self.hear(warp)
            _, token, took, tiles, own = item
            assert token == self.queries[turn]
            assert took == len(found) or launch.counts[token] == 0
            if took > 0 and warp == 0:
                whole = took == tiles
                if not whole and (parts := (yield from self.leave(found, token, took, tiles, own))):
                    found, whole = (yield from self.weigh_parts(found, token, parts - {own})), True
                if whole:
                    launch.answers[token].append(found)
            self.answered[turn].arrive()
            nth += 1


def run(launch, order, seed):
    """Run the blocks in an order; every generator has to come to its end."""
    chance = random.Random(seed)
    blocks = [Block(number, launch) for number in range(launch.blocks)]
    chance.shuffle(blocks)
    shares = {"one by one": [[block] for block in blocks], "some late": [blocks[:40], blocks[40:]]}
    for share in shares.get(order, [blocks]):
        warps = [warp for block in share for warp in block.warps()]
        run_together([[warp, None] for warp in warps], chance, 30 if order == "in bursts" else 1)
    return blocks


def run_together(active, chance, burst):
    """Run generators until all have ended; fail if all of them wait."""
    missed = 0
    while active:
        at = chance.randrange(len(active))
        steps = chance.randint(1, burst)
        generator, condition = active[at]
        if condition is not None and not condition():
            missed += 1
            if missed > 20 * len(active):
                assert any(one is None or one() for _, one in active), "everybody waits"
                missed = 0
            continue
        missed = 0
        for _ in range(steps):
            try:
                condition = next(generator)
            except StopIteration:
                active[at] = active[-1]
                active.pop()
                break
            active[at][1] = condition
            if condition is not None and not condition():
                break
