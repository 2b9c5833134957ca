"""Two minutes of the soak; ``python -m benchmarks.soak`` takes thirty, or as many as it is told."""

from pathlib import Path

import pytest

from benchmarks.soak.figures import SHORT, complaints
from benchmarks.soak.load import RATE
from benchmarks.soak.plan import planned
from benchmarks.soak.report import plot, table
from benchmarks.soak.run import Soak
from benchmarks.soak.sides import APACHE, OURS

pytestmark = [pytest.mark.apache, pytest.mark.real, pytest.mark.timeout(900)]

MINUTES = 2


def test_a_broker_lives_with_stock_clients_and_ours_through_deaths(tmp_path: Path) -> None:
    figures = Soak(planned(MINUTES), MINUTES, RATE, tmp_path, print).run()
    print("\n".join(table(figures)))
    assert complaints(figures, OURS, APACHE, SHORT) == []
    happened = {what.rpartition(" ")[2] for _, what in figures.events}
    assert happened == {"killed", "restarted"}
    assert figures.acknowledged > 0
    assert plot(figures, tmp_path / "soak.png")
