"""Who is timed on a family of lists: the kernel, flashinfer, PyTorch and the study kernel."""

from functools import cached_property, partial

import torch
from shared.dsa_decode.attend import decode
from shared.dsa_decode.peers import WORKSPACE_BYTES, Planned, batched, eager, flashinfer_or_none
from shared.splitk import Plan as StudyPlan
from shared.splitk import splitk

BACKENDS = ("fa3", "fa2")  # of flashinfer
MORE = {"family": "uniform", "tokens": 8}  # where planning and a compiled peer are timed as well


class Peers:
    """flashinfer's backends, PyTorch and the study kernel, for any family."""

    def __init__(self, run):
        """Allocate flashinfer's workspace, if it is here to use it."""
        self.flashinfer = flashinfer_or_none() if run.on_gpu and not run.tiny else None
        self.backends = BACKENDS if self.flashinfer else ()
        if self.flashinfer:
            self.workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.int8, device=run.device)

    @cached_property
    def compiled(self):
        """PyTorch's form for all tokens at once, compiled: the compiler is a second's import."""
        return torch.compile(batched, dynamic=False)

    def build(self, backend):
        """Have flashinfer compile a backend."""
        table = torch.zeros(1, dtype=torch.int32, device=self.workspace.device)
        Planned(self.flashinfer, backend, [1], self.workspace).plan(table)

    def subjects(self, run, family):
        """Name the kernel, where there is a GPU for it, and those of its peers that are here."""
        counts = family.draw(run.seed).valid.tolist()
        ours = partial(decode, lengths=counts)
        found = {"kernel": without_table(ours)} if run.on_gpu else {}
        if family.name == "uniform" or run.tiny:
            study = partial(splitk, plan=study_plan(family.tokens))
            found["split-K in Triton"] = without_table(study)
        for backend in self.backends:
            peer = Planned(self.flashinfer, backend, counts, self.workspace)
            found[f"flashinfer {backend}"] = peer
        if family.name == "contest":
            whole = partial(eager, whole_cache=True)
            found |= {"batched": batched, "eager": eager, "eager, whole cache in float32": whole}
        if family.sizes == MORE and not run.tiny:
            found |= {"batched": batched, "batched, compiled": self.compiled}
            if self.flashinfer:
                planned = Planned(self.flashinfer, "fa3", counts, self.workspace)
                found["flashinfer fa3, planning"] = planned.planning
        return found


def without_table(call):
    """Leave out the last input, flashinfer's page table."""
    return lambda *inputs: call(*inputs[:-1])


def study_plan(tokens):
    """Choose the study kernel's best plan of those that we tried; few steps for an interpreter."""
    if not torch.cuda.is_available():
        return StudyPlan(block=128, splits=2)
    if tokens <= 4:
        return StudyPlan(block=32, stages=3, splits=32)
    if tokens <= 16:
        return StudyPlan(splits=16)
    return StudyPlan(stages=5, splits=2 if tokens >= 64 else 4, warps=8)
