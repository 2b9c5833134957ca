"""Bytes a second, over the last whole second. Pure: time is an argument."""


class Rate:
    """Counts bytes."""

    __slots__ = ("_count", "_last", "_second")

    def __init__(self) -> None:
        self._second = 0
        self._count = 0
        self._last = 0

    def add(self, count: int, now_s: float) -> None:
        """Count bytes."""
        self._turn(int(now_s))
        self._count += count

    def a_second(self, now_s: float) -> int:
        """Return the bytes of the last whole second."""
        self._turn(int(now_s))
        return self._last

    def _turn(self, second: int) -> None:
        if second != self._second:
            self._last = self._count if second == self._second + 1 else 0
            self._second, self._count = second, 0
