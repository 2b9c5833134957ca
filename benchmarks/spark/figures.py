"""The file of figures: kept after every turn, so that a run can be broken off and go on."""

from statistics import median

import msgspec

from benchmarks.kept import Kept
from benchmarks.spark.rows import ROWS


class Turn(msgspec.Struct, omit_defaults=True):
    """One row in one round."""

    s: float
    spark_cpu_s: float = 0.0
    broker_cpu_s: float = 0.0
    rows: int = 0
    batches: int = 0
    batch_s: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0


class Figures(Kept):
    """Everything that is known."""

    size: int = 0
    heading: list[str] = msgspec.field(default_factory=list)
    checked: dict[str, int] = msgspec.field(default_factory=dict)
    """Rows that each source was seen to hold, each counted once."""
    turns: dict[str, list[Turn]] = msgspec.field(default_factory=dict)
    failures: dict[str, str] = msgspec.field(default_factory=dict)

    def of(self, name: str) -> list[Turn]:
        """The turns of a row."""
        return self.turns.get(name, [])

    def rates(self, name: str) -> list[float]:
        """Thousands of rows a second of each turn; of the micro-batch alone where queues are compared."""
        in_batch = ROWS[name].part == "d"
        return [turn.rows / (turn.batch_s if in_batch else turn.s) / 1000 for turn in self.of(name)]

    def rate(self, name: str) -> float:
        """Their median."""
        return median(self.rates(name))

    def cpu(self, name: str, whose: str = "spark_cpu_s") -> float:
        """CPU seconds a million rows, the median."""
        return float(median(getattr(turn, whose) / max(turn.rows, 1) * 1e6 for turn in self.of(name)))
