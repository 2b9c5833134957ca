"""The tutorial's shop, killed at every step: order and payment exist both or neither, at Apache's brokers and ours.

With SQLite at every broker, and with PostgreSQL at one of them in a run.
"""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from campaigns.rotation import this_turn
from examples.order_and_payment_postgresql import TABLES
from firearrow.client import Message, Producer
from judges import ApacheBroker, fresh
from judges.install.artifacts import SERVER_VERSIONS
from tests.interop.client.conftest import OURS
from tests.interop.client.ours import until
from tests.interop.client.reading import reading
from tests.scenario.postgresql import postgresql

pytestmark = [pytest.mark.apache, pytest.mark.real]

EXAMPLES = Path(__file__).parents[3] / "examples"
PATIENCE_S = 90.0
STEPS = {
    "before the half": "neither",
    "after the half": "neither",
    "before the database commits": "neither",
    "after the database has committed": "both",
    "after the end": "both",
    "nowhere": "both",
}
"""The step at which the process is killed, and the rows that must be there afterwards."""
LOST = "the connection is lost before the database commits"
"""The process is not killed here: it gets an error that leaves open whether the database has committed."""

SHOP_THAT_DIES = """
import importlib, os, signal, sys
from firearrow.blocking import Producer, Transaction

module, group, topic, number, step = sys.argv[1:]
shop = importlib.import_module(module)
shop.TOPIC = topic

def die(where):
    if where == step:
        os.kill(os.getpid(), signal.SIGKILL)

begin, end = Transaction.__enter__, Transaction.__exit__

def enter(transaction):
    die("before the half")
    begun = begin(transaction)
    die("after the half")
    return begun

def exit(transaction, *error):
    if error[0] is None:
        die("after the database has committed")
    end(transaction, *error)
    die("after the end")

Transaction.__enter__, Transaction.__exit__ = enter, exit
with shop.database() as database, Producer(shop.ADDRESS, group=group, check=shop.check) as producer:
    BEFORE_A_COMMIT
    shop.place_order(producer, database, number)
"""
SHOP_THAT_ANSWERS = """
import importlib, sys
from firearrow.blocking import Producer
shop = importlib.import_module(sys.argv[1])
with Producer(shop.ADDRESS, group=sys.argv[2], check=shop.check):
    print("open", flush=True)
    sys.stdin.read()
"""
IN_SQLITE = 'database.set_trace_callback(lambda sql: sql == "COMMIT" and die("before the database commits"))'
IN_POSTGRESQL = """
    import psycopg
    commit = psycopg.Transaction.__exit__

    def committing(transaction, *error):
        die("before the database commits")
        if step.startswith("the connection is lost"):
            with psycopg.connect(shop.DATABASE) as other:
                other.execute("SELECT pg_terminate_backend(%s)", (database.info.backend_pid,))
        return commit(transaction, *error)

    psycopg.Transaction.__exit__ = committing
"""


@dataclass(frozen=True)
class Shop:
    """A program of the tutorial with its database."""

    module: str
    database: str
    before_a_commit: str
    """Lines that have ``die`` called before the database commits."""
    rows: Callable[[str], set[str]]
    """The first column of a query's answer."""

    def run(self, program: str, at: str, *words: str) -> "subprocess.Popen[str]":
        """Start a program with this shop."""
        environment = {
            **os.environ,
            "FIREARROW_NAMESRV": at,
            "SHOP_DATABASE": self.database,
            "PYTHONPATH": os.pathsep.join([str(EXAMPLES), *filter(None, sys.path)]),
        }
        program = program.replace("BEFORE_A_COMMIT", self.before_a_commit.strip())
        command = [sys.executable, "-c", program, self.module, *words]
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )


def judge(shop: Shop, broker: ApacheBroker, ends: dict[str, str]) -> None:
    """Let a shop die at every step, let another answer for it, and compare database and topic."""
    topic, group, at = broker.create_topic(fresh("payments"), 1), fresh("shop"), broker.name_servers[0]
    shops = {step: shop.run(SHOP_THAT_DIES, at, group, topic, step, step) for step in ends}
    for step, process in shops.items():
        _, said = process.communicate()
        assert process.returncode == {"nowhere": 0, LOST: 1}.get(step, -9), f"{step}: {said}"
        assert step != LOST or "AdminShutdown" in said
    expected = {step for step, there in ends.items() if there == "both"}
    given_up = len(ends) - len(expected) - 1  # before the half there is nothing to ask about

    async def main() -> None:
        async with reading(at, topic) as reader, Producer(at, group=fresh("P")) as producer:
            await until(lambda: expected <= {body.decode() for body in reader.bodies}, "the payments", PATIENCE_S)
            query = "SELECT message_id FROM outcomes WHERE outcome = 'given up'"
            await until(lambda: len(shop.rows(query)) == given_up, "the answers", PATIENCE_S)
            await producer.send(Message(topic, b"the last"))
            await until(lambda: b"the last" in reader.bodies, "the last message")
            assert {body.decode() for body in reader.bodies} == {*expected, "the last"}

    answering = shop.run(SHOP_THAT_ANSWERS, at, group)
    try:
        asyncio.run(main())
    finally:
        _, said = answering.communicate()
    assert answering.returncode == 0, said
    assert shop.rows("SELECT number FROM orders") == expected


def test_order_and_payment_exist_both_or_neither(broker: ApacheBroker, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"

    def rows(query: str) -> set[str]:
        with closing(sqlite3.connect(path, timeout=30)) as shop:
            return {row[0] for row in shop.execute(query)}

    judge(Shop("order_and_payment", str(path), IN_SQLITE, rows), broker, STEPS)


@pytest.mark.rotating
@pytest.mark.parametrize("broker", this_turn([*SERVER_VERSIONS, OURS], __name__), indirect=True)
def test_order_and_payment_exist_both_or_neither_with_postgresql(broker: ApacheBroker) -> None:
    with postgresql() as database:

        def rows(query: str) -> set[str]:
            with psycopg.connect(database) as shop:
                return {row[0] for row in shop.execute(query.encode())}

        with psycopg.connect(database) as first:
            first.execute(TABLES)
        shop = Shop("order_and_payment_postgresql", database, IN_POSTGRESQL, rows)
        judge(shop, broker, {**STEPS, LOST: "neither"})
