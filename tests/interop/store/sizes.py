"""The number of messages: a slice for every run, or as many as the environment says."""

import os
from typing import Final

_TOLD: Final = int(os.environ.get("FIREARROW_STORE_MESSAGES", "0"))

STOPPED: Final = _TOLD or 100_000
"""In a store that Apache's broker wrote and closed."""
KILLED: Final = _TOLD or 25_600
"""In a store whose broker is killed before it has them all."""
IN_TURNS: Final = _TOLD or 8_000
"""In each of three parts that ours writes between visits of Apache's broker; a multiple of the batch size."""
EVERY: Final = 1 if _TOLD else 8
"""Ids and keys are asked of every so many messages; queues and times are always read in full."""
SECONDS: Final = 3600 if _TOLD else 600
"""The longest time that one test may take."""
