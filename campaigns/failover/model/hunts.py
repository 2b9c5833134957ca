"""The bounds of searches: those that the rules are searched within, and for every mutant those that catch it."""

from collections.abc import Mapping
from typing import Final

from campaigns.failover.model.steps import Bounds

_QUIET: Final = Bounds(epochs=2, changes=2, records=1, deaths=0, losses=0)
_DEATH: Final = Bounds(epochs=2, changes=2, records=1, deaths=1, losses=0)
_LOSS: Final = Bounds(epochs=2, changes=2, records=1, deaths=1)

SMALL: Final = (_QUIET._replace(in_sync=2), _DEATH, _QUIET._replace(handovers=True))
"""Bounds that are searched to their end within half a minute."""
SLOW: Final = frozenset(
    {"fence is not durable", "expands before the start of the epoch", "a replica joins without a cut"}
)
"""Mutants that take tens of thousands of states; only the command hunts them."""

BOUNDS: Final[Mapping[str, Bounds]] = {
    "acknowledges without the proposed set": _QUIET._replace(in_sync=2),
    "acknowledges by a majority": _QUIET,
    "fence is not durable": _DEATH,
    "elects outside the in-sync set": _QUIET,
    "hands over outside the in-sync set": _QUIET._replace(in_sync=2, handovers=True),
    "shrinks without a swap": _QUIET,
    "expands before the start of the epoch": _QUIET._replace(in_sync=2, epochs=3, changes=3),
    "a master goes on in its epoch after a restart": _LOSS,
    "a replica that may lack records stays in sync": _LOSS._replace(syncs=False),
    "a lost directory is not noticed": _LOSS,
    "a replaced directory is not noticed": _LOSS._replace(replacements=True, changes=4, epochs=2),
    "acknowledgements outlive a member's leave": _LOSS._replace(in_sync=2, changes=3, syncs=False),
    "a replica joins without a cut": _QUIET._replace(records=2, epochs=3, changes=3),
}
