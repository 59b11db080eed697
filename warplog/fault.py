"""One exception for everything that an author can mend; anything else is a bug and keeps its traceback."""


class Fault(Exception):
    """A mistake in an entry, a record, an artifact or a command, with its place and its remedy.

    `str(fault)` is one line: ``place: problem; remedy``.
    """

    def __init__(self, place: str, problem: str, remedy: str) -> None:
        """`place` is ``file``, ``file:line`` or a command; `remedy` says what to do about it."""
        super().__init__(f"{place}: {problem}; {remedy}")
        self.place = place
        self.problem = problem
        self.remedy = remedy


class Faults(Exception):
    """Several faults found in one pass, so that an author mends them together."""

    def __init__(self, faults: list[Fault]) -> None:
        """Keep `faults` in the order in which they were found; there is at least one."""
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = faults
