"""The moves of a group's offsets: their options and their printed form."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from firearrow.cli.tables import print_json, print_table
from firearrow.errors import SettingsError
from firearrow.model import MessageQueue

if TYPE_CHECKING:
    from firearrow.admin import QueueMove


def queue_of(topic: str, text: str) -> MessageQueue:
    """Read ``BROKER:NUMBER``; raise ``SettingsError`` for another text."""
    broker, colon, number = text.rpartition(":")
    if not (colon and broker and number.isascii() and number.isdigit()):
        raise SettingsError(
            f"--queue {text!r} is not a queue; write BROKER:NUMBER, as firearrow topic describe shows them"
        )
    return MessageQueue(topic, broker, int(number))


def print_moves(moves: Sequence["QueueMove"], group: str, topic: str, *, as_json: bool, dry_run: bool) -> None:
    """Print the moved queues, as a table or as JSON."""
    if as_json:
        print_json(
            [
                {"broker": each.queue.broker_name, "queue": each.queue.queue_id}
                | {"before": each.before, "after": each.after}
                for each in moves
            ]
        )
        return
    rows = [
        (each.queue.broker_name, each.queue.queue_id, "-" if each.before is None else each.before, each.after)
        for each in moves
    ]
    title = f"Group {group} would go on in {topic}" if dry_run else f"Group {group} goes on in {topic}"
    print_table(title, ["broker", "queue", "before", "after"], rows)
