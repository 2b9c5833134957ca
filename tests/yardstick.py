"""The slowness of a machine, so that a budget of CPU time means the same work on every machine."""

import time
from collections.abc import Callable
from statistics import median

REFERENCE_S = 0.007
"""CPU time of the work below on the machine whose figures the documentation gives."""
TRIES = 5


def slowness() -> float:
    """Return how many times longer this machine takes than the machine of the budgets, at least 1.

    Ask right after something took longer than its budget: a busy machine is slower than an idle one, too.
    """
    return max(1.0, median(_work_s() for _ in range(TRIES)) / REFERENCE_S)


def steady_s(taken_s: float, budget_s: float) -> float:
    """Return the CPU time of work just done; if it is over its budget, as the machine of the budgets would take it."""
    return taken_s if taken_s < budget_s else taken_s / slowness()


def least_s(measure: Callable[[], float], budget_s: float) -> float:
    """Return the CPU time of some work on the machine of the budgets: the least of a few tries, one if it is in budget.

    Other work on the machine makes a try longer, never shorter, so the least is the steady figure.
    """
    found: list[float] = []
    while len(found) < TRIES and (not found or min(found) >= budget_s):
        found.append(steady_s(measure(), budget_s))
    return min(found)


def _work_s() -> float:
    begin = time.thread_time()
    table: dict[str, int] = {}
    for number in range(20_000):
        table[str(number % 997)] = table.get(str(number % 991), 0) + number
    return time.thread_time() - begin
