"""Back-off before a worker that has ended is started again. Pure; time is an argument, in seconds."""

from typing import Final

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
STEADY_S: Final = 60.0
"""A worker that has run for so long begins with the first pause again."""


class BackOff:
    """The pauses before one worker's starts."""

    def __init__(self) -> None:
        self._pause_s = FIRST_PAUSE_S

    def pause(self, ran_s: float) -> float:
        """Return the pause before the next start of a worker that has ended after so many seconds."""
        if ran_s >= STEADY_S:
            self._pause_s = FIRST_PAUSE_S
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, LONGEST_PAUSE_S)
        return pause_s
