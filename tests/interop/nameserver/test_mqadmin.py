"""Apache's mqadmin prints the same about one broker whichever name server it asks, Apache's or ours.

One broker of Apache's is registered with both at once. Figures that move by themselves (rates, clocks, the page cache)
are blanked before comparing.
"""

import re
from collections.abc import Callable, Iterator

import pytest

from judges import ApacheBroker, ApacheNameServer, FireArrowNameServer, Mqadmin, fresh
from judges.server_process import wait_for

pytestmark = pytest.mark.apache

BROKER = "broker-a"


class Pair:
    """A command, said to both name servers."""

    def __init__(self, mqadmin: Mqadmin, ours: str, apaches: str, topic: str) -> None:
        self.topic = topic
        self._mqadmin = mqadmin
        self._name_servers = (ours, apaches)

    def run(self, command: str) -> tuple[str, str]:
        """Run it against both, ours first, and return what was printed."""
        ours, apaches = (self._mqadmin.run(f"{command} -n {name_server}") for name_server in self._name_servers)
        return ours, apaches


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with (
        FireArrowNameServer() as ours,
        ApacheNameServer() as apaches,
        ApacheBroker(name_servers=[ours.address, apaches.address], name=BROKER) as broker,
        Mqadmin() as mqadmin,
    ):
        topic = broker.create_topic(fresh("admin"))
        yield Pair(mqadmin, ours.address, apaches.address, topic)


def same(text: str) -> str:
    return text


def in_any_order(text: str) -> str:
    """Topics are a hash set in mqadmin: those that share a slot come in the order in which they were received."""
    return "\n".join(sorted(text.splitlines()))


def without_rates(text: str) -> str:
    """The table of brokers without what changes from one second to the next."""
    return re.sub(r"\d+\.\d+(\(.*?\))?|\d+ms\)?", "#", re.sub(r" +", " ", text))


def without_clocks(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+|\d+\.\d+", "#", text)


@pytest.mark.parametrize(
    ("command", "blanked"),
    [
        ("clusterList", without_rates),
        ("clusterList -m", without_rates),
        ("topicList", in_any_order),
        ("topicList -c", in_any_order),
        ("topicRoute -t {topic}", same),
        ("topicRoute -l -t {topic}", same),
        ("topicStatus -t {topic}", without_clocks),
        ("topicClusterList -t {topic}", same),
    ],
)
def test_reading_commands(pair: Pair, command: str, blanked: Callable[[str], str]) -> None:
    ours, apaches = pair.run(command.format(topic=pair.topic))
    assert blanked(ours) == blanked(apaches)
    assert len(ours.strip()) > 2


def test_texts(pair: Pair) -> None:
    for command in ("updateKvConfig -s NS -k key -v value", "deleteKvConfig -s NS -k key"):
        ours, apaches = pair.run(command)
        assert ours == apaches
        assert "success" in ours


def test_write_permission(pair: Pair) -> None:
    for command, perm in ((f"wipeWritePerm -b {BROKER}", 4), (f"addWritePerm -b {BROKER}", 6)):
        ours, apaches = pair.run(command)
        assert counted(ours) == counted(apaches)
        assert "OK" in ours
        routes = pair.run(f"topicRoute -t {pair.topic}")
        assert routes[0] == routes[1]
        assert re.search(rf'"perm":\s*{perm}\b', routes[0]), routes[0]


def counted(printed: str) -> str:
    """The output, with the name server's own address blanked."""
    return re.sub(r"127\.0\.0\.1:\d+", "NAMES", printed)


def test_a_refusal_reads_the_same(pair: Pair) -> None:
    ours, apaches = (pair._mqadmin.execute(f"topicRoute -t NoSuchTopic -n {address}") for address in pair._name_servers)
    for reply in (ours, apaches):
        assert "CODE: 17" in reply.out + reply.err
        assert "No topic route info in name server for the topic: NoSuchTopic" in reply.out + reply.err


def test_settings_change_what_the_name_server_does(pair: Pair) -> None:
    ours, _ = pair._name_servers
    try:
        printed = pair._mqadmin.run(f"updateNamesrvConfig -k enableTopicList -v false -n {ours}")
        assert "success" in printed
        assert re.search(r"enableTopicList\s*=\s*false", pair._mqadmin.run(f"getNamesrvConfig -n {ours}"))
        refused = pair._mqadmin.execute(f"updateNamesrvConfig -k kvConfigPath -v /tmp/x -n {ours}")
        assert "CODE: 16" in refused.out + refused.err
    finally:
        pair._mqadmin.run(f"updateNamesrvConfig -k enableTopicList -v true -n {ours}")
    wait_for(lambda: "true" in pair._mqadmin.run(f"getNamesrvConfig -n {ours}"), "the setting is back")
