"""Runs the command lines with both tools at one cluster and compares what they print."""

import contextlib
import io
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from campaigns.mqadmin.command_lines import verb_of
from campaigns.mqadmin.normal_text import normal
from firearrow.blocking import Consumer, Message, MessageQueue, Producer
from firearrow.cli.mqadmin.startup import EXIT, STRICT, start
from judges import ApacheBroker, ApacheNameServer, FireArrowBroker, FireArrowNameServer, Mqadmin, fresh


class Printed(Struct, frozen=True):
    """The output of a tool, and whether it failed."""

    text: str
    failed: bool


class Outcome(Struct, frozen=True):
    """One line by both tools at one cluster."""

    line: str
    ours: Printed
    theirs: Printed

    @property
    def is_same(self) -> bool:
        """Whether both printed the same."""
        return normal(self.ours.text) == normal(self.theirs.text)

    @property
    def our_word(self) -> str:
        """The outcome of our tool: ``same`` as Apache's, ``differs``, ``works`` where Apache's fails, or
        ``refused``."""
        if self.ours.failed:
            return "refused" if self.theirs.failed else "fails"
        if self.theirs.failed:
            return "works"
        return "same" if self.is_same else "differs"

    @property
    def their_word(self) -> str:
        """The outcome of Apache's tool."""
        return "refused" if self.theirs.failed else "works"


class Place(Struct, frozen=True):
    """A cluster and the names that stand for its parts in a line."""

    names: dict[str, str]

    def filled(self, line: str, who: str) -> str:
        """Return a line with its names filled in."""
        for name, value in {**self.names, "$WHO": who}.items():
            line = line.replace(name, value)
        return f"{line} -n {self.names['$N']}"


def ours(line: str) -> Printed:
    """Run a line with our tool."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = start(shlex.split(line), {**os.environ, EXIT: STRICT})
    return Printed(out.getvalue() + (err.getvalue() if status else ""), bool(status))


def theirs(tool: Mqadmin, line: str) -> Printed:
    """Run a line with Apache's tool, whose exit status says nothing: it fails if it prints an exception."""
    reply = tool.execute(line)
    threw = "Exception" in reply.out + reply.err and "success" not in reply.out  # it prints some and goes on
    failed = threw or reply.exit_status not in (None, 0) or "error, " in reply.out
    return Printed(reply.out if not failed else reply.out + reply.err, failed)


@contextlib.contextmanager
def cluster(kind: str) -> Iterator[Place]:
    """Start our servers or Apache's, with a topic, a member of a group and a producer."""
    topic, group, producers = fresh("verbs"), fresh("group"), fresh("producers")
    with contextlib.ExitStack() as stack:
        names = stack.enter_context(FireArrowNameServer() if kind == "ours" else ApacheNameServer())
        made = FireArrowBroker if kind == "ours" else ApacheBroker
        broker = stack.enter_context(made(name_servers=[names.address]))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (directory / "topics.json").write_text(json.dumps([{"topicName": f"{topic}-list", "readQueueNums": 2}]))
        (directory / "groups.json").write_text(json.dumps([{"groupName": f"{group}-list"}]))
        broker.create_topic(topic)
        producer = stack.enter_context(Producer(names.address, group=producers))
        queue = MessageQueue(topic, "broker-a", 1)
        sent = producer.send(Message(topic, b"hello", tag="TagA", keys="the-key"), queue=queue)
        consumer = stack.enter_context(Consumer(names.address, group=group, topics=[topic], start="first"))
        message = next(iter(consumer))
        with message.process():
            pass
        yield Place(
            {
                "$N": names.address, "$B": broker.address, "$T": topic, "$G": group, "$P": producers,
                "$C": consumer.client_id, "$I": sent.message_id, "$DIR": str(directory),
            }
        )  # fmt: skip


def compared(place: Place, lines: Sequence[str], tool: Mqadmin) -> list[Outcome]:
    """Run lines with both tools, one after the other."""
    found = []
    for line in lines:
        by_apache = theirs(tool, place.filled(line, "apache"))
        outcome = Outcome(line, ours(place.filled(line, "ours")), by_apache)
        found.append(outcome)
        print(f"{outcome.our_word:8} {outcome.their_word:8} {line}", file=sys.stderr)
        if outcome.our_word in ("differs", "fails"):
            _show(outcome)
    return found


def refused(place: Place, lines: Sequence[str], tool: Mqadmin) -> dict[str, str]:
    """Run lines about what servers do not have with Apache's tool; say of every command what became of it."""
    found = {}
    for line in lines:
        printed = theirs(tool, place.filled(line, "apache"))
        # Commands about light topics print "error" for a broker and go on.
        word = "refused" if printed.failed or " error" in printed.text else "works"
        found[verb_of(line)] = word
        print(f"{'none':8} {word:8} {line}", file=sys.stderr)
    return found


def _show(outcome: Outcome) -> None:
    us, them = normal(outcome.ours.text), normal(outcome.theirs.text)
    for line in us:
        if line not in them:
            print(f"    ours    {line[:400]}", file=sys.stderr)
    for line in them:
        if line not in us:
            print(f"    apache  {line[:400]}", file=sys.stderr)


def by_verb(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Return the outcomes of every command."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(verb_of(outcome.line), []).append(outcome)
    return found
