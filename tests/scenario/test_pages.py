"""The programs and commands of the tutorial and the how-tos do what the pages say, and are typed."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mypy import api

from tests.scenario.blocks import ROOT, Reader, blocks

DOCS = ROOT / "docs"
PAGES = {
    "tutorial/first-messages.md": [
        "SEND_OK",
        "sent 100",
        "handled 101",
        "counted 201",
        "ordered paid served",
        "read 201",
        "hello",
    ],
    "tutorial/order-and-payment.md": ["orders 7 8 9 payments 7 8 9"],
    "how-to/fastapi.md": ["1 passed"],
    "how-to/worker-processes.md": ["squares 100 exits [0, 0]"],
    "how-to/pytest.md": ["2 passed", "1 passed"],
    "how-to/idempotent-handlers.md": ["deliveries 2 payments 1", "handled 1 repeats 1"],
    "how-to/slow-consumers.md": ["handled 500 messages", "loaded 100 rows"],
    "how-to/monitor-clients.md": [
        'rocketmq_process_time_count{consumer_group="bar",invocation_status="success",topic="metered"} 10.0',
        'firearrow_client_messages_sent_total{result="SEND_OK",topic="metered"} 10.0',
    ],
    "how-to/logging.md": ['"event": "an example", "topic": "orders"'],
    "how-to/open-the-port.md": [
        "sent 1 message to orders",
        "refused: plaintext",
        "refused: nobody",
        "refused: a wrong password",
        "refused: a user without the rule",
        "refused: a topic of others",
        "refused: a copy of the log",
        "as they were written",
    ],
    "how-to/tls.md": ["sent 1 message to secrets", "plaintext is refused", "heard hush", "sent 1 message to secrets"],
    "how-to/access.md": [
        "created normal user shop at 127.0.0.1:29931",
        '"user": "shop",',
        "10.0.0.0/8",
        "127.0.0.1:29931: yes, the rule says: Allow Pub,Sub on Topic:orders*",
        "127.0.0.1:29931: no, no matched policies.",
        "refused: User:shop has no permission to access Topic:bills from 127.0.0.1, no matched policies.",
        "heard one espresso",
        "a wrong password is refused",
        " lines, as they were written; the last is line ",
    ],
    "how-to/quotas.md": [
        "sent 60 in more than a second",
        "retryable True stored False told how long to wait True",
    ],
    "how-to/filter-messages.md": ["passed ['Bonn', 'Köln']", "Aachen"],
    "how-to/delays.md": [
        "at once, after two seconds, at a time",
        "\nrecalled\n",
        "sent 1 message to reminders",
        "1 message was recalled from reminders",
    ],
    "how-to/values.md": ["orders [7, 8, 9]", "paid 320"],
    "how-to/filter-bodies.md": ["large [910, 930, 950, 970, 990]", '{"amount": 980,', '{"amount": 990,'],
    "how-to/accept-messages.md": ["handled 10 rejected 40"],
    "how-to/pause-and-rebalance.md": ["paused at 10", "counted 100", "left 0"],
    "how-to/skip-a-backlog.md": ["sent 1000 messages", "behind 0", "reads again 1000"],
    "how-to/migrate-from-rocketmq-client-python.md": ["SEND_OK", "one espresso"],
    "how-to/migrate-from-aiokafka.md": ["ordered", "paid", "served"],
    "how-to/migrate-from-java.md": ["SEND_OK", "TagA Hello"],
    "reference/api/index.md": ["names: Consumer, Filter, Message, MessageQueue, Producer"],
    "reference/api/producer.md": ["SEND_OK orders", "batch of 10"],
    "reference/api/consumer.md": ["mine now: ['tables']", "paused: True", "handled: one espresso", "gone: True"],
    "reference/api/pull-consumer.md": ["stored: 20", "read: 20"],
    "reference/api/blocking.md": ["blocking: hello"],
    "reference/api/serializers.md": ['{"id":7,"item":"espresso"} Order(id=7, item=\'espresso\')'],
    "reference/api/metrics.md": ['firearrow_client_messages_sent_total{app="shop",topic="orders",result="SEND_OK"} 1'],
    "reference/api/errors.md": ["refused: the body of a message is bytes", "may be stored all the same: False"],
    "reference/api/admin.md": ["stock has 3 queues"],
    "reference/api/testing.md": ["real: [b'one espresso']", "an hour has passed, in no time"],
}


SETTINGS = {"how-to/delays.md": {"recallMessageEnable": "true"}}
"""Settings of the broker that a page tells its reader to make."""


@pytest.fixture
def fresh_address(page: str) -> Iterator[str]:
    """A cluster of its own: pages use the same names for their topics."""
    from firearrow.testing.blocking import Cluster

    with Cluster(settings=SETTINGS.get(page)) as cluster:
        yield cluster.address


@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs(page: str, fresh_address: str, tmp_path: Path) -> None:
    with Reader(tmp_path, address=fresh_address) as reader:
        output = reader.read(DOCS / page)
    for line in PAGES[page]:
        assert line in output


def test_every_program_is_typed(tmp_path: Path) -> None:
    """``mypy --strict``, as a user runs it, on every program of every page."""
    files = []
    for page in ("../README.md", *PAGES):
        for number, block in enumerate(blocks(DOCS / page)):
            if block.language == "python":
                stem = Path(page).stem.replace("-", "_").lower()
                name = block.title if block.title == "shop.py" else f"{stem}_{number}.py"
                files.append(tmp_path / name)
                files[-1].write_text(block.text, encoding="utf-8")
    words = ["--strict", "--python-executable", sys.executable, "--cache-dir", str(ROOT / ".mypy_cache" / "pages")]
    output, errors, status = api.run([*words, "--config-file", "", *map(str, files)])
    assert status == 0, output + errors
