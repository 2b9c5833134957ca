"""The tutorial's shop, killed at every step: order and payment exist both or neither, at Apache's brokers and ours."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from firearrow.client import Message, Producer
from judges import ApacheBroker, fresh
from tests.interop.client.ours import until
from tests.interop.client.reading import reading

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
"""Where the process is killed, and what must be there afterwards."""

SHOP_THAT_DIES = """
import os, signal, sys
import order_and_payment as shop
from firearrow.blocking import Producer, Transaction

group, shop.TOPIC, number, step = sys.argv[1:]

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
    die("after the database has committed")
    end(transaction, *error)
    die("after the end")

Transaction.__enter__, Transaction.__exit__ = enter, exit
with shop.database() as database, Producer(shop.ADDRESS, group=group, check=shop.check) as producer:
    database.set_trace_callback(lambda sql: sql == "COMMIT" and die("before the database commits"))
    shop.place_order(producer, database, number)
"""
SHOP_THAT_ANSWERS = """
import sys
import order_and_payment as shop
from firearrow.blocking import Producer
with Producer(shop.ADDRESS, group=sys.argv[1], check=shop.check):
    print("open", flush=True)
    sys.stdin.read()
"""


def run(program: str, environment: dict[str, str], *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", program, *words]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def rows(path: Path, query: str) -> set[str]:
    with closing(sqlite3.connect(path, timeout=30)) as shop:
        return {row[0] for row in shop.execute(query)}


def test_order_and_payment_exist_both_or_neither(broker: ApacheBroker, tmp_path: Path) -> None:
    topic, group, at = broker.create_topic(fresh("payments"), 1), fresh("shop"), broker.name_servers[0]
    database = tmp_path / "shop.db"
    environment = {
        **os.environ,
        "FIREARROW_NAMESRV": at,
        "SHOP_DATABASE": str(database),
        "PYTHONPATH": os.pathsep.join([str(EXAMPLES), *filter(None, sys.path)]),
    }
    shops = {step: run(SHOP_THAT_DIES, environment, group, topic, step, step) for step in STEPS}
    for step, shop in shops.items():
        shop.communicate()
        assert shop.returncode == (0 if step == "nowhere" else -9), step
    expected = {step for step, there in STEPS.items() if there == "both"}

    async def main() -> None:
        async with reading(at, topic) as reader, Producer(at, group=fresh("P")) as producer:
            await until(lambda: expected <= {body.decode() for body in reader.bodies}, "the payments", PATIENCE_S)
            given_up = "SELECT message_id FROM outcomes WHERE outcome = 'given up'"
            await until(lambda: len(rows(database, given_up)) == 2, "the answers", PATIENCE_S)
            await producer.send(Message(topic, b"the last"))
            await until(lambda: b"the last" in reader.bodies, "the last message")
            assert {body.decode() for body in reader.bodies} == {*expected, "the last"}

    answering = run(SHOP_THAT_ANSWERS, environment, group)
    try:
        asyncio.run(main())
    finally:
        answering.communicate()
    assert answering.returncode == 0
    assert rows(database, "SELECT number FROM orders") == expected
