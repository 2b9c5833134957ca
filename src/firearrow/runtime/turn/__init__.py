"""The turn of a server's loop: the shares of its work, their budgets, and pauses.

A server runs on one loop, and a step that works for long keeps every connection waiting. So work over many things is
done in pieces, and this package alone lets the loop run between two of them: `soon` and `mark` for callbacks, `breathe`
and `Pace` for coroutines.
"""

from firearrow.runtime.turn.budgets import NS_A_BYTE, STEP_NS, TARGET_NS, ShareBudget, Step, TurnBudgets
from firearrow.runtime.turn.fair_line import FairLine
from firearrow.runtime.turn.pace import OTHERS, REST_AFTER_NS, Pace, breathe, rest
from firearrow.runtime.turn.turn import (
    HOLD_NS,
    SMALL_NS,
    STEP_BOUNDS,
    ChargedCoroutine,
    Share,
    Turn,
    counted,
    families_of_turn,
    in_next_turn,
    mark,
    name_of,
    soon,
    tell_holds,
    watch,
    watched,
)

__all__ = [
    "HOLD_NS",
    "NS_A_BYTE",
    "OTHERS",
    "REST_AFTER_NS",
    "SMALL_NS",
    "STEP_BOUNDS",
    "STEP_NS",
    "TARGET_NS",
    "ChargedCoroutine",
    "FairLine",
    "Pace",
    "Share",
    "ShareBudget",
    "Step",
    "Turn",
    "TurnBudgets",
    "breathe",
    "counted",
    "families_of_turn",
    "in_next_turn",
    "mark",
    "name_of",
    "rest",
    "soon",
    "tell_holds",
    "watch",
    "watched",
]
