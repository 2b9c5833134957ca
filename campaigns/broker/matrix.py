"""The matrix of stock clients: what each of them can do at our broker, and the same at Apache's 5.5.0 as a control.

A cell is a client and a row; a row is a scenario of `judges.scenarios`, which knows nothing of whose
broker it talks to. `Servers` starts both sides, `Results` keeps what came of each cell, `page` writes it down.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from campaigns.faults.ledger import is_of
from firearrow.errors import FireArrowError
from judges import (
    CAPABILITIES,
    ApacheBroker,
    ApacheNameServer,
    FireArrowBroker,
    FireArrowNameServer,
    JudgeProcess,
)
from judges.aging import SMALL_FILES
from judges.install.artifacts import CPP_WHEEL, GO_CLIENT, NODE_CLIENT, RUST_CLIENT
from judges.judge import is_installed
from judges.scenarios import SCENARIOS

Side = Literal["ours", "apache"]
SIDES: tuple[Side, ...] = ("ours", "apache")
PASS = "pass"  # noqa: S105
ATTEMPTS = 2
"""A loaded machine may cost a client its patience once; what fails twice has failed."""

ROWS: Mapping[str, str] = {
    "send, synchronous": "sync",
    "send, asynchronous": "async",
    "send, one-way": "one-way",
    "send, batch": "batch",
    "send, 1 MiB compressed": "large",
    "keys and tags": "keys-and-tags",
    "push consumer, clustering": "exchange",
    "push consumer, broadcasting": "broadcast",
    "ordered send and consume": "ordered",
    "tag filter": "tags",
    "SQL92 filter, push consumer": "sql",
    "SQL92 filter, lite pull consumer": "sql-lite",
    "SQL92 filter, pull consumer": "sql-pull",
    "retry, then success": "retry",
    "retry, then dead letter": "dead-letter",
    "delay level": "delay",
    "delay to any time": "timer",
    "pull consumer": "pull",
    "start from a timestamp": "from-time",
    "rebalance, a consumer joins and leaves": "rebalance",
    "transaction: commit, rollback, asked": "transaction",
    "transaction, its producer killed": "transaction-death",
}

TITLES = {
    "java-5.5.0": "Java 5.5.0",
    "java-4.9.8": "Java 4.9.8",
    "go": f"Go {GO_CLIENT}",
    "node": f"Node ali-ons {NODE_CLIENT}",
    "cpp": f"C++ (wheel {CPP_WHEEL})",
    "rust": f"Rust {RUST_CLIENT}",
}

LACKS = {
    ("java-4.9.8", "delay to any time"): "its messages have delay levels alone",
    ("go", "delay to any time"): "its messages have delay levels alone",
    ("node", "delay to any time"): "its messages have delay levels alone",
    ("cpp", "delay to any time"): "its messages have delay levels alone",
    ("node", "send, one-way"): "ali-ons has no one-way send",
    ("node", "send, batch"): "ali-ons has no batch",
    ("node", "ordered send and consume"): "ali-ons has no ordered consumer",
    ("node", "pull consumer"): "ali-ons has no pull consumer",
    ("node", "transaction: commit, rollback, asked"): "its judge has no mode for transactions",
    ("node", "transaction, its producer killed"): "its judge has no mode for transactions",
    ("node", "SQL92 filter, lite pull consumer"): "ali-ons has no pull consumer",
    ("node", "SQL92 filter, pull consumer"): "ali-ons has no pull consumer",
    (
        "go",
        "SQL92 filter, lite pull consumer",
    ): "its pull consumer delivers nothing by SQL92, of Apache's broker neither",
    ("go", "SQL92 filter, pull consumer"): "its pull consumer is the one of the row above",
    (
        "rust",
        "push consumer, broadcasting",
    ): "its broadcasting consumers miss messages, of Apache's broker too",
    ("rust", "SQL92 filter, pull consumer"): "its judge has no mode for its pull consumer",
    ("cpp", "SQL92 filter, push consumer"): "the C interface subscribes by tags alone",
    ("cpp", "SQL92 filter, lite pull consumer"): "the C interface subscribes by tags alone",
    ("cpp", "SQL92 filter, pull consumer"): "the C interface subscribes by tags alone",
    ("cpp", "send, batch"): "a batch of its C interface is stored as one message, by Apache's broker too",
    ("cpp", "start from a timestamp"): "the C interface has no setting for it",
    ("cpp", "transaction: commit, rollback, asked"): "its judge has no mode for transactions",
    ("cpp", "transaction, its producer killed"): "its judge has no mode for transactions",
}


EXPLAINED = {
    "apache / cpp / retry, then dead letter": "Apache's broker answers the last message sent back with a "
    "NullPointerException (`TopicValidator.isSystemTopic`)",
    "apache / rust / tag filter": "for `A || C` the client sends the hash codes of `A ` and ` C`, with their blanks; "
    "Apache's broker filters by those codes, ours computes them from the tags",
}
"""Failures of the control that are Apache's own, or the client's."""

_PREFACE = """Written by `make matrix`; do not edit. In each cell: our broker / Apache's 5.5.0 as control, each at a
name server of the same make, the same program for both. Dead-letter cells run with `messageDelayLevel` shortened on
both sides; the true levels and all 17 deliveries are tried in simulation, under virtual time. The column of the Rust
client is run where it is installed: `python -m judges install --only rust`, which compiles for 10 to 40 minutes."""


@dataclass(frozen=True)
class Cell:
    """One client and one row."""

    client: str
    row: str

    @property
    def is_supported(self) -> bool:
        """Whether the client has what the row asks for."""
        return CAPABILITIES[self.client].issuperset(SCENARIOS[ROWS[self.row]].needs)

    @property
    def can_run(self) -> bool:
        """Whether the row can be tried here: the client supports it and is installed."""
        return self.is_supported and is_installed(self.client)

    def key(self, side: Side) -> str:
        """Its name in a file of results."""
        return f"{side} / {self.client} / {self.row}"


def cells() -> list[Cell]:
    """Every cell, also those that a client does not support."""
    return [Cell(client, row) for client in TITLES for row in ROWS]


class Servers:
    """Both sides, and the clients; each is started when it is first asked for."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._brokers: dict[tuple[Side, bool], ApacheBroker] = {}
        self._clients: dict[str, JudgeProcess] = {}

    def broker(self, side: Side, *, ages: bool = False) -> ApacheBroker:
        """The broker of a side, at a name server of the same make; with ``ages`` one that keeps nothing for long.

        Apache's broker does not ask about transactions that are older than it keeps the log.
        """
        if (side, ages) not in self._brokers:
            enter = self._stack.enter_context
            names = enter(ApacheNameServer() if side == "apache" else FireArrowNameServer())
            make: Callable[..., ApacheBroker] = ApacheBroker if side == "apache" else FireArrowBroker
            settings = SMALL_FILES if ages else None
            self._brokers[side, ages] = enter(make(name_servers=[names.address], settings=settings))
        return self._brokers[side, ages]

    def run(self, cell: Cell, side: Side) -> None:
        """Try a cell; raises what went wrong."""
        if cell.client not in self._clients:
            self._clients[cell.client] = self._stack.enter_context(JudgeProcess(cell.client))
        scenario = SCENARIOS[ROWS[cell.row]]
        broker, client = self.broker(side, ages=scenario.aged), self._clients[cell.client]
        try:
            scenario.at(client.at(broker.name_servers[0]), broker)
        except BaseException:
            self._clients.pop(cell.client).close()
            raise
        client.reset()

    def close(self) -> None:
        """End them all."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def outcome(servers: Servers, cell: Cell, side: Side) -> str:
    """``pass``, or what went wrong, in one line."""
    said = ""
    for _ in range(ATTEMPTS):
        try:
            servers.run(cell, side)
        except (AssertionError, FireArrowError, OSError, TimeoutError) as failure:
            said = " ".join(str(failure).split())[:200] or type(failure).__name__
        else:
            return PASS
    return said


class Results:
    """The results of the cells, kept in a file after each, so that a stopped run goes on where it was."""

    def __init__(self, path: str, commit: str, source: str, *, of_any_commit: bool = False) -> None:
        self._path = path
        self.commit = commit
        self._source = source
        self.at = time.strftime("%Y-%m-%d", time.gmtime())
        self.outcomes: dict[str, str] = {}
        self.runs: dict[str, str] = {}
        """The time and commit of each cell's run: a page may hold cells of several runs."""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                kept = json.load(file)
            if of_any_commit or is_of(kept, commit, source):
                self.outcomes = kept["outcomes"]
                self.runs = kept.get("runs", {})

    def keep(self, key: str, said: str) -> None:
        """Note the outcome of a cell."""
        self.outcomes[key] = said
        self.runs[key] = f"on {self.at} at commit {self.commit}"
        os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
        with open(self._path, "w", encoding="utf-8") as file:
            kept = {"commit": self.commit, "source": self._source, "outcomes": self.outcomes, "runs": self.runs}
            json.dump(kept, file, indent=1)


def fill(results: Results) -> Iterator[tuple[str, str]]:
    """Try every cell that has not passed yet, on both sides; yields each as it comes."""
    with Servers() as servers:
        for side in SIDES:
            for cell in cells():
                if cell.can_run and results.outcomes.get(cell.key(side)) != PASS:
                    said = outcome(servers, cell, side)
                    results.keep(cell.key(side), said)
                    yield cell.key(side), said


def table(outcomes: Mapping[str, str]) -> list[str]:
    """The matrix in lines of Markdown: in each cell ours, then the control."""
    head = ["", *TITLES.values()]
    lines = [head, ["---"] * len(head)]
    lines += [[row, *(_shown(Cell(client, row), outcomes) for client in TITLES)] for row in ROWS]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _shown(cell: Cell, outcomes: Mapping[str, str]) -> str:
    if not cell.is_supported:
        return "not supported"
    said = [outcomes.get(cell.key(side)) for side in SIDES]
    return " / ".join("not run" if one is None else one if one == PASS else "**FAIL**" for one in said)


def _said_of_runs(results: Results) -> str:
    """One sentence for each run that cells of the page come from."""
    runs: dict[str, list[str]] = {}
    for key, said in results.outcomes.items():
        runs.setdefault(results.runs.get(key, "at an unknown commit"), []).append(said)
    return "\n".join(
        f"Run {run}: {sum(said == PASS for said in outcomes)} of {len(outcomes)} cells passed."
        for run, outcomes in runs.items()
    )


def page(results: Results) -> str:
    """The page of the documentation."""
    failures = [f"- {key}: {EXPLAINED.get(key, said)}" for key, said in results.outcomes.items() if said != PASS]
    lacking = [f"- {TITLES[client]}, {row}: {why}." for (client, row), why in LACKS.items()]
    parts = [
        "# Stock clients at our broker",
        _PREFACE,
        _said_of_runs(results),
        "\n".join(table(results.outcomes)),
        "## Failures",
        "\n".join(failures) or "None.",
        "## Not supported by the client",
        "\n".join(lacking),
        "What each row does is in `judges.scenarios`.",
    ]
    return "\n\n".join(parts) + "\n"
