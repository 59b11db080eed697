"""A corpus that is made and not downloaded: words of syllables, each followed by one of four others."""

import torch

LETTERS = " abcdefghijklmnopqrstuvwxyz.\n"
WORDS, FOLLOWERS = 64, 4
SYLLABLES = ("ba", "ce", "di", "po", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu",
             "va", "we", "xi", "yo", "zu", "an", "el", "ir", "os", "ut")  # fmt: skip


def words(seed):
    """Return WORDS different words of two to four syllables."""
    source = torch.Generator().manual_seed(seed)
    found = {}
    while len(found) < WORDS:
        length = int(torch.randint(2, 5, (1,), generator=source))
        places = torch.randint(len(SYLLABLES), (length,), generator=source).tolist()
        found["".join(SYLLABLES[place] for place in places)] = None
    return list(found)


def corpus(length, seed=0):
    """Return `length` letters as int64 places in LETTERS.

    The next word is one of four that follow the last, with weights 1/1 to 1/4; a tenth of the words end a
    sentence, and a tenth of the sentences end a line.
    """
    vocabulary, source = words(seed), torch.Generator().manual_seed(seed + 1)
    followers = torch.stack(
        [torch.randperm(WORDS, generator=source)[:FOLLOWERS] for _ in range(WORDS)]
    )
    weights = 1 / torch.arange(1.0, FOLLOWERS + 1)
    chosen = (
        torch.multinomial(weights.expand(length // 4, -1), 1, generator=source).flatten().tolist()
    )
    ends = torch.rand(length // 4, 2, generator=source).tolist()
    follows, word, pieces, size = followers.tolist(), 0, [], 0
    for choice, (sentence, line) in zip(chosen, ends, strict=True):
        word = follows[word][choice]
        end = " " if sentence > 0.1 else ".\n" if line < 0.1 else ". "
        pieces.append(vocabulary[word] + end)
        size += len(pieces[-1])
        if size >= length:
            break
    text = "".join(pieces)[:length]
    return torch.tensor([LETTERS.index(letter) for letter in text])
