"""The second half: scores with every kind of tie, and where top-k and a stable sort part.

`hunt` looks for counterexamples and counts those that it finds, `definition` says which of the two is
right, `network` tests the model of what happens for k from 2 to 32, `example` is its smallest case,
`paths` names the kernels. A selection is one row at one k.
"""

from collections.abc import Iterator

import torch
from draws import SPECIAL, TIES, draw, dtypes_of
from kernel import cleaned, padded_sort, padded_topk, stable_topk
from model import BITONIC, bitonic_topk
from reference import top_indices

BANDS = {1: (1,), "2..32": (2, 8, 32), "33..5000": (33, 64, 256, 1000, 2048, 5000)}
SCHEMES = {
    "one-block-gather": "sbtopk::gatherTopK",
    "many-block-gather": "mbtopk::gatherTopK",
    "bitonic-network": "bitonicSortKVInPlace",
    "block-radix-sort": "radixSortKVInPlace",
    "device-radix-sort": "DeviceRadixSortOnesweep",
    "all": "",
}


def hunt(run):
    """Selections that are not the stable sort's: in another order, or another set of indices."""
    bands = BANDS if run.on_gpu else {1: (1,), "2..32": (2, 8, 32), "33..5000": (33,)}
    for kind in TIES:
        counts = {band: [] for band in bands}
        for scores in _scores(run, kind):
            stable = padded_sort(scores, scores.shape[-1])
            tidy = cleaned(scores) if kind in SPECIAL else scores
            tidy_stable = padded_sort(tidy, tidy.shape[-1]) if kind in SPECIAL else stable
            for band, sizes in bands.items():
                for k in (k for k in sizes if k <= scores.shape[-1]):
                    counts[band].append(_differing(scores, stable, tidy, tidy_stable, k))
        for band, found in counts.items():
            _keep(run, {"ties": kind, "values": SPECIAL.get(kind, "plain"), "k": band}, found)


def _differing(scores, stable, tidy, tidy_stable, k: int) -> torch.Tensor:
    """Count rows that differ at k: in order, in the set, when cleaned, when asked for 33; and all."""
    found, wanted = padded_topk(scores, k), stable[..., :k]
    order = (found != wanted).any(-1)
    chosen = (found.sort(-1).values != wanted.sort(-1).values).any(-1)
    tidied = (padded_topk(tidy, k) != tidy_stable[..., :k]).any(-1)
    asked = (stable_topk(tidy, k) != tidy_stable[..., :k]).any(-1)
    return torch.stack([each.sum() for each in (order, chosen, tidied, asked, order | True)])


def _keep(run, sizes: dict, found: list[torch.Tensor]) -> None:
    order, chosen, tidied, asked, tested = torch.stack(found).sum(0).tolist()
    sizes = {"unit": "selections", **sizes}
    run.count("mismatches", order, subject="top-k", **sizes)
    run.count("set_mismatches", chosen, subject="top-k", **sizes)
    run.count("tested", tested, subject="top-k", **sizes)
    run.count("mismatches", asked, subject="top-k of 33, cleaned", **sizes)
    if sizes["values"] != "plain":
        run.count("mismatches", tidied, subject="top-k, cleaned", **sizes)
    sizes["unit"] = "fraction"
    run.count("differing", order / tested, subject="top-k", **sizes)
    run.count("differing_sets", chosen / tested, subject="top-k", **sizes)


def _scores(run, kind: str) -> Iterator[torch.Tensor]:
    """Scores over dtypes, lengths and batches: `[length]`, and `[batch, length]` of 31 rows."""
    for dtype in dtypes_of(kind):
        for length in run.sizes(full=(1000, 4096, 20000, 131073), tiny=(40,)):
            if kind == "none" and dtype.itemsize == 2 and length > 20000:
                continue  # 16 bits do not hold so many different numbers.
            for batch in run.sizes(full=(1, 31), tiny=(1, 3)):
                scores = draw(kind, (batch, length), dtype, run.seed + length, run.device)
                yield scores[0] if batch == 1 else scores


def definition(run):
    """Rows of top-k and of the stable sort that are not what `torch.sort` on a CPU gives."""
    ((batch, length, k),) = run.sizes(full=[(31, 4096, 2048)], tiny=[(3, 64, 40)])
    for kind in TIES:
        scores = draw(kind, (batch, length), torch.float32, run.seed, run.device)
        wanted = top_indices(scores, k)
        sizes = {"ties": kind, "batch": batch, "length": length, "k": k}
        for subject, ways in {"top-k": padded_topk, "stable sort": padded_sort}.items():
            wrong = int((ways(scores, k) != wanted).any(-1).sum())
            run.count("definition_mismatches", wrong, unit="rows", subject=subject, **sizes)


def network(run):
    """How often a tie breaks the order, by how many different scores there are; and the model."""
    batch, length = 256, 1000
    source = torch.Generator(run.device).manual_seed(run.seed)
    for levels in run.sizes(full=(1, 16, 256, 4096, 65536, 1048576), tiny=()):
        for k in (2, 4, 8, 16, 32, 33):
            whole = torch.randint(levels, (batch, length), generator=source, device=run.device)
            scores = whole.float()
            found, stable = padded_topk(scores, k), padded_sort(scores, k)
            pairs = {
                "top-k": (found, stable),
                "top-k, again": (padded_topk(scores, k), found),
                "top-k of 33": (stable_topk(scores, k), stable),
            }
            if k <= BITONIC:
                pairs["bitonic model"] = (bitonic_topk(scores, k), found)
            sizes = {"batch": batch, "length": length, "levels": levels, "k": k}
            for subject, (one, two) in pairs.items():
                wrong = int((one != two).any(-1).sum())
                run.count("mismatches", wrong, unit="rows", subject=subject, **sizes)


def example(run):
    """Record the index that comes first among six whole numbers, the largest of them twice."""
    scores = torch.tensor([[3.0, 2, 3, 2, 1, 1]], device=run.device)
    for subject, ways in {"top-k": padded_topk, "stable sort": padded_sort}.items():
        first = int(ways(scores, 2)[0, 0])
        run.count("first_index", first, unit="", subject=subject, length=6, k=2)


def paths(run):
    """Which kernels top-k and the stable sort launch, by shape and k."""
    shapes = [(1, 1000, 32), (1, 1000, 33), (1, 4096, 2048), (1, 4097, 2048), (1, 20000, 2048)]
    shapes += [(31, 4096, 2048), (31, 4097, 2048), (31, 8192, 2048)]
    for batch, length, k in shapes if run.on_gpu else ():
        scores = torch.randn(batch, length, device=run.device)
        for subject, ways in {"top-k": padded_topk, "stable sort": padded_sort}.items():
            seen = run.launches(lambda ways=ways, scores=scores, k=k: ways(scores, k))
            for scheme, part in SCHEMES.items():
                sizes = {"batch": batch, "length": length, "k": k, "kernel": scheme}
                number = sum(part in launch.name for launch in seen)
                run.count("launches", number, unit="kernels", subject=subject, **sizes)
