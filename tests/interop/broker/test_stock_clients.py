"""Every stock client does everything it can at our broker, and some of it at Apache's, as a control.

The whole matrix on both sides is ``make matrix``, which writes ``docs/reference/interop-matrix.md``. Here all rows run
at our broker and a slice of them, which goes round from commit to commit, at Apache's.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from campaigns.broker import matrix
from campaigns.broker.matrix import LACKS, ROWS, Cell, Servers
from campaigns.rotation import this_turn
from judges import FireArrowBroker, FireArrowNameServer, JudgeProcess, fresh
from judges.scenarios import SCENARIOS
from judges.wire import UPDATE_BROKER_SETTINGS, ask

pytestmark = pytest.mark.apache

SUPPORTED = [cell for cell in matrix.cells() if cell.is_supported]
# Sixteen retries take the C++ client minutes on a busy machine: the matrix has that cell.
HERE = [cell for cell in SUPPORTED if cell.can_run and (cell.client, cell.row) != ("cpp", "retry, then dead letter")]
# Apache's broker deletes nothing in its first minute, so a topic does not age there in time.
CONTROL = this_turn(
    [cell for cell in HERE if cell.row != "start from a timestamp" and cell.key("apache") not in matrix.EXPLAINED],
    __name__,
)


def name(cell: Cell) -> str:
    return f"{cell.client}-{ROWS[cell.row]}"


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Both sides, each started when it is first needed."""
    with Servers() as servers:
        yield servers


@pytest.mark.parametrize("cell", HERE, ids=name)
def test_a_cell_at_our_broker(servers: Servers, cell: Cell) -> None:
    assert matrix.outcome(servers, cell, "ours") == matrix.PASS


@pytest.mark.rotating
@pytest.mark.parametrize("cell", CONTROL, ids=name)
def test_a_cell_at_apache_s_broker(servers: Servers, cell: Cell) -> None:
    assert matrix.outcome(servers, cell, "apache") == matrix.PASS


def test_what_a_client_lacks_is_said() -> None:
    assert {(cell.client, cell.row) for cell in matrix.cells()} - {(c.client, c.row) for c in SUPPORTED} == set(LACKS)


def test_the_page_has_every_row() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "interop-matrix.md").read_text()
    assert [row for row in ROWS if f"| {row} |" not in page] == []
    assert "| **FAIL** /" not in page, "a cell fails at our broker"
    assert "not run" not in page


def test_a_young_topic_is_read_from_its_beginning(
    stock_client: JudgeProcess, our_names: FireArrowNameServer, our_broker: FireArrowBroker
) -> None:
    if not stock_client.can("timestamp"):
        pytest.skip(f"{stock_client.client} cannot start elsewhere")
    SCENARIOS["young-topic"].at(stock_client.at(our_names.address), our_broker)
    stock_client.reset()


def test_transactions_are_refused_by_setting(
    stock_client: JudgeProcess, our_names: FireArrowNameServer, our_broker: FireArrowBroker
) -> None:
    if not stock_client.can("transaction"):
        pytest.skip(f"{stock_client.client} cannot")
    topic = our_broker.create_topic(fresh("prepared"))
    judge = stock_client.at(our_names.address)
    ask(our_broker.address, UPDATE_BROKER_SETTINGS, body=b"rejectTransactionMessage=true")
    try:
        assert judge.send(topic, 3, mode="transaction").failed == (0, 1, 2)
    finally:
        ask(our_broker.address, UPDATE_BROKER_SETTINGS, body=b"rejectTransactionMessage=false")
    stock_client.reset()
