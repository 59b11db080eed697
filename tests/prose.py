"""Invents the prose and the code of a journal: real-looking words and identifiers, the same each time.

The rule kept here: words follow Zipf's law as those of a language do, so that a search index is as large
as a real one; nothing looks like a measured number, which an entry may not hold outside a link.
"""

import random
from itertools import accumulate, pairwise

COMMON = """
the of a and to in is it that one for as with by on are be from at this not which or but all has its
each no they we was so than when what where two if only then into there more out them after time how
same first same both between while because still over under every less most other block warp lane
row column tile load store cache bank register thread program launch stream queue kernel matrix
vector sum order bits width stride offset pointer mask reads writes takes holds waits runs costs
moves keeps gives measured expected reported refuted slower faster equal wider narrow aligned padded
ragged shared global local memory bandwidth latency occupancy pressure barrier pipeline stage
prefetch swizzle layout fragment accumulator epilogue prologue schedule scheduler compiler
instruction predicate loop unrolled constant error tolerance rounding denormal infinity mantissa
exponent scale block-scaled quantised batch item length sequence head hidden query key value
attention softmax norm gradient optimiser reduction scan
""".split()  # noqa: SIM905 - a list of words reads as words
PARTS = """
load store fetch copy bulk wait group commit num stages warps row col tile block offs mask acc scale
amax quant dequant pack unpack swizzle smem gmem tmem desc barrier arrive phase parity lane warp cta
cluster head seq batch dim stride base ptr idx iter step lo hi min max sum mean var norm exp log
rsqrt fma dot mma wgmma ldmatrix cvt bf16 fp8 e4m3 int4 ste round clamp
""".split()  # noqa: SIM905 - a list of words reads as words
MODULES = ["tl", "torch", "cp.async", "tcgen05", "mbarrier", "triton", "cute", "nvvm"]
_ONSETS = [
    *"bcdfghlmnprstvw",
    "br",
    "cl",
    "cr",
    "dr",
    "fl",
    "gr",
    "pl",
    "sc",
    "sp",
    "st",
    "tr",
    "th",
    "ch",
    "sh",
]
_VOWELS = [*"aeiou", "ai", "ea", "ee", "io", "ou"]
_CODAS = ["", "", "", "", "", "", "n", "r", "s", "t", "l", "m", "nd", "st", "ck", "ng", "ct"]
_ENDINGS = ["", "", "", "", "", "", "", "s", "ed", "ing", "er", "ly", "tion", "ness", "ment"]
_TAIL = 6000
_STATEMENTS = (
    "{a} = tl.load({b} + {c}, {d}, 0.0)",
    "{a} = {b}.to(tl.int64) * {c}",
    "{a} += tl.dot({b}, {c})",
    "{a} = {b}[:, None] + {c}",
    "# {prose}",
    "{a} = tl.where({b}, {c}, {d})",
    "if {a} < 32: {b} = {c}",
    "{a} = {b} + {c} * {d}",
    "tl.store({a}, {c}, {d})",
    "assert {a}.shape[0] == {b}",
)


class Author:
    """Writes by one seed: two authors with the same seed write the same."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def word(self) -> str:
        """Return one word; the rank of a word decides how often it comes."""
        return self.random.choices(VOCABULARY, cum_weights=WEIGHTS)[0]

    def identifier(self) -> str:
        """Return a name as code has it: `load_rows`, `tl.num_stages`, `_AccScale`, `BLOCK_M`."""
        parts = self.random.sample(PARTS, self.random.choice([2, 2, 2, 3]))
        kind = self.random.random()
        if kind < 0.2:
            return f"{self.random.choice(MODULES)}.{'_'.join(parts)}"
        if kind < 0.3:
            return "_" + "".join(part.capitalize() for part in parts)
        return "_".join(parts).upper() if kind < 0.4 else "_".join(parts)

    def sentence(self, words: int | None = None) -> str:
        """Return a sentence of about 17 words, some of which are code or stand out."""
        count = words or self.random.randint(10, 24)
        said = self.random.choices(VOCABULARY, cum_weights=WEIGHTS, k=count)
        for index in range(count):
            chance = self.random.random()
            if chance < 0.025:
                said[index] = f"`{self.identifier()}`"
            elif chance < 0.035:
                said[index] = f"**{said[index]}**"
            elif chance < 0.09 and index < count - 1:
                said[index] += ","
        return f"{said[0][:1].upper()}{said[0][1:]} {' '.join(said[1:])}."

    def plain(self, words: int) -> str:
        """Return words without markup: for a title, a summary, a claim."""
        text = " ".join(self.random.choices(VOCABULARY, cum_weights=WEIGHTS, k=words))
        return text.capitalize()

    def paragraph(self, words: int) -> str:
        """Return a paragraph of about `words` words, one sentence a line."""
        sentences, count = [], 0
        while count < words - 8:  # half a sentence
            sentences.append(self.sentence())
            count += len(sentences[-1].split())
        return "\n".join(sentences)

    def code(self, lines: int, region: str) -> str:
        """Return `lines` lines like those of a kernel, as dense as the kernels here, as a region."""
        written: list[str] = []
        while len(written) < lines:
            if len(written) % 14 == 0:
                name, *arguments = self.random.sample(PARTS, 4)
                written += ["", "", "@triton.jit", f"def {name}({', '.join(arguments)}):"]
                written += [f'    """{self.plain(9)}."""']
            else:
                names = ["_".join(self.random.sample(PARTS, 2)) for _ in range(4)]
                words = dict(zip("abcd", names, strict=True), prose=self.plain(8))
                written += ["    " + self.random.choice(_STATEMENTS).format(**words)]
        return "\n".join([f"# region: {region}", *written[:lines], "# endregion", ""])


def _vocabulary() -> list[str]:
    """Return the common words, then invented ones, each once."""
    chance = random.Random(1)
    words = dict.fromkeys(COMMON)
    while len(words) < len(COMMON) + _TAIL:
        syllables = [
            chance.choice(_ONSETS) + chance.choice(_VOWELS) + chance.choice(_CODAS)
            for _ in range(chance.choice([1, 1, 2, 2]))
        ]
        words.setdefault("".join(syllables) + chance.choice(_ENDINGS))
    return list(words)


VOCABULARY = _vocabulary()
WEIGHTS = list(accumulate(1 / (rank + 2.7) for rank in range(len(VOCABULARY))))
assert all(low < high for low, high in pairwise(WEIGHTS))
