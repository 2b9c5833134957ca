"""An order in a database and the message that asks for its payment: both or neither, wherever the process dies."""

import os
import sqlite3
import sys
from contextlib import closing

from firearrow.blocking import Consumer, Message, Producer, StoredMessage, TransactionState

ADDRESS = os.environ.get("FIREARROW_NAMESRV", "127.0.0.1:9876")
DATABASE = os.environ.get("SHOP_DATABASE", "shop.db")
GROUP = "shop"
TOPIC = "payments"

TABLES = """
CREATE TABLE IF NOT EXISTS orders (number TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS outcomes (message_id TEXT PRIMARY KEY, outcome TEXT NOT NULL);
"""


def database() -> sqlite3.Connection:
    """Open the database of the shop."""
    shop = sqlite3.connect(DATABASE, timeout=30)
    shop.executescript(TABLES)
    return shop


def place_order(producer: Producer, shop: sqlite3.Connection, number: str) -> None:
    """Store an order, and have its payment message delivered if and only if the order is stored."""
    with producer.transaction(Message(TOPIC, number.encode(), keys=number)) as transaction, shop:
        shop.execute("INSERT INTO outcomes VALUES (?, 'placed')", (transaction.message_id,))
        shop.execute("INSERT INTO orders VALUES (?)", (number,))


def check(message: StoredMessage) -> TransactionState:
    """Answer a broker that asks what became of a payment message.

    The first of `place_order` and `check` to write the outcome decides, and the other one follows.
    """
    with closing(database()) as shop, shop:
        shop.execute("INSERT INTO outcomes VALUES (?, 'given up') ON CONFLICT DO NOTHING", (message.unique_key,))
        found = shop.execute("SELECT outcome FROM outcomes WHERE message_id = ?", (message.unique_key,))
        is_placed = found.fetchone() == ("placed",)
    return TransactionState.COMMIT if is_placed else TransactionState.ROLLBACK


def main(numbers: list[str]) -> None:
    """Place orders and see their payment messages."""
    with closing(database()) as shop, Producer(ADDRESS, group=GROUP, check=check) as producer:
        for number in numbers:
            place_order(producer, shop, number)
        placed = {number for (number,) in shop.execute("SELECT number FROM orders")} & set(numbers)
    asked_for: set[str] = set()
    with Consumer(ADDRESS, group="cashier", topics=TOPIC, start="first") as consumer:
        for message in consumer:
            with message.process():
                asked_for.add(message.body.decode())
            if asked_for >= placed:
                consumer.stop()
    print("orders", *sorted(placed), "payments", *sorted(asked_for & placed))


if __name__ == "__main__":
    main(sys.argv[1:] or ["7", "8", "9"])
