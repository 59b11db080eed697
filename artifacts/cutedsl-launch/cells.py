"""The cells of one version in one environment, one after the other: CuTe DSL is imported once.

`python cells.py` reads cells, each a line of JSON, and answers each with a line. A cell that ends the
process or hangs is its own outcome: whoever asks starts another process for the next (`matrix.Worker`).
"""

import ctypes
import json
import os
import signal
import sys

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def main() -> None:
    """Import, then answer until there is no more to answer."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is no answer
    import cell

    for line in sys.stdin:
        told.write(json.dumps({"answer": cell.answer(json.loads(line))}) + "\n")
        told.flush()


if __name__ == "__main__":
    main()
