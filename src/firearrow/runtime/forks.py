"""Whether this process is the one in which something was opened.

A fork copies objects but neither their loop nor their threads. ``generation`` counts the forks that led here, so that
noticing one costs a comparison.
"""

import os

generation = 0


def _count() -> None:
    global generation
    generation += 1


if hasattr(os, "register_at_fork"):  # systems without it have no fork
    os.register_at_fork(after_in_child=_count)
