"""Apache's ``mqadmin`` of both versions against our broker."""

import re
from collections.abc import Callable, Iterator

import pytest

from judges import FireArrowBroker, FireArrowNameServer, JudgeProcess, Mqadmin, fresh
from judges.install.artifacts import SERVER_VERSIONS
from judges.shared import SharedServers

pytestmark = pytest.mark.apache

Run = Callable[[str], str]

OWED = """
    updateTopic updateTopicPerm deleteTopic topicList topicRoute topicStatus topicClusterList updateOrderConf
    updateSubGroup deleteSubGroup consumerProgress consumerConnection consumerStatus producerConnection clusterList
    brokerStatus getBrokerConfig updateBrokerConfig statsAll queryCq resetOffsetByTime skipAccumulatedMessage
    cloneGroupOffset queryMsgById queryMsgByKey queryMsgByOffset queryMsgByUniqueKey printMsg sendMessage consumeMessage
    wipeWritePerm addWritePerm cleanUnusedTopic deleteExpiredCommitLog
"""
"""Every command that our broker owes an answer to."""
EVERY_TEST = 17


ran: dict[str, set[str]] = {version: set() for version in SERVER_VERSIONS}


@pytest.fixture(scope="module", params=SERVER_VERSIONS)
def run(request: pytest.FixtureRequest, our_names: FireArrowNameServer, our_broker: FireArrowBroker) -> Iterator[Run]:
    """Runs a command; ``$N`` is the name server, ``$B`` the broker."""
    with Mqadmin(str(request.param)) as mqadmin:

        def run(line: str) -> str:
            ran[mqadmin.version].add(line.split()[0])
            return mqadmin.run(line.replace("$N", our_names.address).replace("$B", our_broker.address))

        yield run


@pytest.fixture
def topic(run: Run) -> str:
    """A topic with two messages, tags and keys."""
    name = fresh("admin")
    run(f"updateTopic -n $N -c DefaultCluster -t {name} -r 8 -w 8")
    for number in range(2):
        assert "SEND_OK" in run(
            f"sendMessage -n $N -t {name} -p hello{number} -k k{number} -c tag{number} -b broker-a -i 0"
        )
    return name


def test_topics(run: Run, topic: str) -> None:
    assert topic in run("topicList -n $N")
    assert '"writeQueueNums":8' in "".join(run(f"topicRoute -n $N -t {topic}").split())
    assert "DefaultCluster" in run(f"topicClusterList -n $N -t {topic}")
    status = [line.split() for line in run(f"topicStatus -n $N -t {topic}").splitlines() if "broker-a" in line]
    assert {line[1]: line[2:4] for line in status}["0"] == ["0", "2"]
    assert "success" in run(f"updateTopic -n $N -b $B -t {topic} -r 4 -w 2")
    assert '"writeQueueNums":2' in "".join(run(f"topicRoute -n $N -t {topic}").split())
    assert "from 6 to 4" in run(f"updateTopicPerm -n $N -b $B -t {topic} -p 4")
    assert "success" in run(f"deleteTopic -n $N -c DefaultCluster -t {topic}")
    assert topic not in run("topicList -n $N")


def test_messages(run: Run, topic: str) -> None:
    found = run(f"queryMsgByKey -n $N -t {topic} -k k1").splitlines()
    unique = found[-1].split()[0]
    assert "Queue ID:            0" in run(f"queryMsgByUniqueKey -n $N -t {topic} -i {unique}")
    by_offset = run(f"queryMsgByOffset -n $N -t {topic} -b broker-a -i 0 -o 1")
    assert "tag1" in by_offset
    offset_id = next(line.split()[-1] for line in by_offset.splitlines() if "OffsetID" in line)
    of_topic = "" if "-t" not in run("help queryMsgById") else f"-t {topic}"
    assert "tag1" in run(f"queryMsgById -n $N {of_topic} -i {offset_id}")
    assert "hello0" in run(f"printMsg -n $N -t {topic} -d true")
    assert "hello" in run(f"consumeMessage -n $N -t {topic} -g {fresh('tool')} -b broker-a -i 0 -c 2")
    assert "physicOffset=" in run(f"queryCq -n $N -t {topic} -q 0 -i 0 -c 2 -b $B")


def test_groups(run: Run, topic: str) -> None:
    group = fresh("G")
    assert "success" in run(f"updateSubGroup -n $N -c DefaultCluster -g {group}")
    run(f"updateTopic -n $N -c DefaultCluster -t %RETRY%{group} -r 1 -w 1")  # as the first consumer does
    assert "broker-a" in run(f"resetOffsetByTime -n $N -g {group} -t {topic} -s 0")
    progress = [line.split() for line in run(f"consumerProgress -n $N -g {group}").splitlines() if topic in line]
    assert {line[2]: line[3:5] for line in progress}["0"] == ["2", "0"]
    assert "broker-a" in run(f"skipAccumulatedMessage -n $N -g {group} -t {topic}")
    assert group in run("consumerProgress -n $N")
    copy = fresh("G")
    run(f"updateSubGroup -n $N -b $B -g {copy}")
    assert "success" in run(f"cloneGroupOffset -n $N -s {group} -d {copy} -t {topic}")
    assert "success" in run(f"deleteSubGroup -n $N -c DefaultCluster -g {group}")


def test_the_broker(run: Run, topic: str) -> None:
    cluster = next(line.split() for line in run("clusterList -n $N").splitlines() if "broker-a" in line)
    assert cluster[:3] == ["DefaultCluster", "broker-a", "0"]
    assert "V5_5_0" in cluster
    assert "broker-a" in run("clusterList -n $N -m")
    status = run("brokerStatus -n $N -b $B")
    assert "putTps" in status
    assert "getTransferedTps" in status
    assert "brokerClusterName" in run("getBrokerConfig -n $N -b $B")
    assert "success" in run("updateBrokerConfig -n $N -b $B -k traceOn -v true")
    assert topic in run("statsAll -n $N")
    for command in ("cleanUnusedTopic", "cleanExpiredCQ"):
        assert "success" in run(f"{command} -n $N -b $B")
    assert "OK" in run("wipeWritePerm -n $N -b broker-a")
    assert '"perm":4' in "".join(run(f"topicRoute -n $N -t {topic}").split())
    assert "OK" in run("addWritePerm -n $N -b broker-a")
    assert '"perm":6' in "".join(run(f"topicRoute -n $N -t {topic}").split())


def test_order(run: Run, topic: str) -> None:
    assert "success" in run(f"updateOrderConf -n $N -t {topic} -m put -v broker-a:8")
    assert "broker-a:8" in run(f"updateOrderConf -n $N -t {topic} -m get")
    assert "success" in run(f"updateOrderConf -n $N -t {topic} -m delete")


@pytest.fixture(scope="module", params=["java-5.5.0", "go"])
def online(request: pytest.FixtureRequest, shared_servers: SharedServers) -> JudgeProcess:
    """A client whose producers and consumers run while an operator looks."""
    return shared_servers.client(str(request.param))


def test_who_is_there(run: Run, topic: str, online: JudgeProcess, our_names: FireArrowNameServer) -> None:
    judge, group = online.at(our_names.address), fresh("online")
    language = "JAVA" if online.client.startswith("java") else "GO"
    with judge.subscribe(topic, group=group) as consumer:
        judge.send(topic, 8)
        consumer.collect(10)
        there = run(f"consumerConnection -n $N -g {group}")
        assert re.search(rf"127\.0\.0\.1:\d+\s+{language}\s+V", there)
        assert re.search(rf"{topic}\s+\*", there)
        assert "CLUSTERING" in there
        client = next(line.split()[0] for line in there.splitlines() if language in line)
        assert client in run(f"consumerStatus -n $N -g {group}")
        assert topic in run(f"consumerStatus -n $N -g {group} -i {client}")
        if language == "JAVA":  # a producer of the Go client says hello half a minute later
            producers = run(f"producerConnection -n $N -g P-{topic} -t {topic}")
            assert re.search(r"127\.0\.0\.1:\d+\s+JAVA\s+V", producers)
    online.reset()


def test_old_files_are_deleted_on_demand(run: Run) -> None:
    assert "success" in run("deleteExpiredCommitLog -n $N -b $B")
    assert "success" in run("deleteExpiredCommitLog -n $N -c DefaultCluster")


def test_every_command_that_is_owed_has_been_run(request: pytest.FixtureRequest) -> None:
    if len([item for item in request.session.items if item.path == request.path]) < EVERY_TEST:
        pytest.skip("only some of the tests here are run")
    missing = {version: set(OWED.split()) - commands for version, commands in ran.items()}
    assert not any(missing.values()), missing
