"""The wait that a broker asks for: at least as long as told, with jitter. Pure.

Apache's brokers do not say it; there the back-off of the caller counts.
"""

import random
from typing import Final

from firearrow.errors import Throttled

SPREAD: Final = 0.25
"""Jitter: a wait is longer than told by up to this part, so that many clients do not come back at the same moment."""


SHORTEST_MS: Final = 10
"""The shortest wait, whatever a broker says: a broken one must not be asked again and again without a pause."""


def told_pause_s(error: Throttled, chance: random.Random) -> float:
    """Return how long to wait after a refusal, in seconds."""
    return max(error.retry_after_ms, SHORTEST_MS) / 1000 * chance.uniform(1.0, 1.0 + SPREAD)
