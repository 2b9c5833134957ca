"""The stock clients' own scripts with our client, at our broker and Apache's of both versions.

The scripts that want a topic whose beginning is deleted wait a minute for Apache's brokers to begin deleting: those run
with FIREARROW_ALL_SCENARIOS set, and at our broker always.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from judges import ApacheBroker, ApacheNameServer, FireArrowBroker, FireArrowNameServer
from judges.aging import SMALL_FILES
from judges.install.artifacts import SERVER_VERSIONS
from judges.scenarios import SCENARIOS
from tests.interop.client.conftest import OURS
from tests.interop.client.matrix import ABILITIES, OurJudge
from tests.interop.client.slices import ALL
from tests.interop.client.test_timers import has_no_timers

pytestmark = pytest.mark.apache

ABLE = {name: each for name, each in SCENARIOS.items() if ABILITIES.issuperset(each.needs)}
WITH_SMALL_FILES = [OURS, *(SERVER_VERSIONS if os.environ.get(ALL) else ())]


@contextmanager
def ours_at(broker: ApacheBroker) -> Iterator[OurJudge]:
    judge = OurJudge(broker.name_servers[0])
    try:
        yield judge
    finally:
        judge.reset()


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # where broadcasting keeps its offsets


@pytest.mark.parametrize("name", [name for name, each in ABLE.items() if not each.aged])
def test_scenario(broker: ApacheBroker, name: str) -> None:
    if name == "timer" and has_no_timers(broker):
        pytest.skip("brokers of 4.9 have no timers")
    with ours_at(broker) as judge:
        SCENARIOS[name].at(judge, broker)


@pytest.mark.parametrize("kind", WITH_SMALL_FILES)
def test_scenarios_on_topics_whose_beginning_is_deleted(kind: str) -> None:
    with FireArrowNameServer() if kind == OURS else ApacheNameServer(kind) as names:
        small = (
            FireArrowBroker(name_servers=[names.address], settings=SMALL_FILES)
            if kind == OURS
            else ApacheBroker(kind, name_servers=[names.address], settings=SMALL_FILES)
        )
        with small, ours_at(small) as judge:
            for each in ABLE.values():
                if each.aged:
                    each.at(judge, small)
