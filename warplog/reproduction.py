"""Says how to measure a page again: the command, how long it takes, and what it answers. Pure.

The rule kept here: a reader without a GPU learns what the same command does for them.
"""

from warplog.conditions import duration
from warplog.journal import Outcome
from warplog.menu import documented
from warplog.output import plain_words


def reproduction(outcome: Outcome) -> str:
    """Return the command that measures the page again, how long it takes and what it prints."""
    evidence = outcome.own.evidence
    took = ""
    if evidence is not None:
        record = evidence.record
        took = (
            f"It takes about {duration(record.seconds)} on one {plain_words(evidence.name)}, in "
            f"{record.protocol.runs} fresh processes. "
        )
    return (
        '<div class="highlight wl-command"><pre tabindex="0"><code>'
        f"{documented('reproduce', outcome.entry.slug)}</code></pre></div><p>{took}"
        "It prints, claim by claim, what was reported, what is published here, what your device says, and "
        "the verdict; it changes no record. With <code>--publish</code> it adds a record of your device.</p>"
        "<p>Without a GPU the same command checks that the kernels are right at tiny sizes, shows the "
        "published verdicts, and times nothing.</p>"
    )
