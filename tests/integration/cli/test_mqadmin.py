"""``mqadmin`` at a real cluster of ours: the commands of every day, in the order in which an operator needs them."""

import os
import re
import socket
from pathlib import Path

import pytest

from firearrow.blocking import Consumer
from firearrow.cli.mqadmin.startup import EXIT, STRICT, start
from firearrow.model.names import TIMER_TOPIC
from firearrow.testing.blocking import Cluster
from judges.server_process import wait_for

pytestmark = pytest.mark.real


class Tool:
    """Runs commands at a cluster and returns what they print."""

    def __init__(self, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        self.names = cluster.address
        self.broker = cluster.broker_address()
        self._capsys = capsys

    def run(self, line: str, *, status: int = 0) -> str:
        """Run a command; fail if its status is another one."""
        words = line.replace("$B", self.broker).split()
        got = start([*words, "-n", self.names], {**os.environ, EXIT: STRICT})
        said = self._capsys.readouterr()
        assert got == status, f"{line}: {said.out}{said.err}"
        return said.out + said.err


@pytest.fixture
def tool(firearrow_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Tool:
    return Tool(firearrow_cluster, capsys)


def rows(text: str) -> list[list[str]]:
    """Return the words of every line but the first."""
    return [line.split() for line in text.splitlines()[1:] if line.strip()]


def test_a_topic_is_made_shown_changed_and_deleted(tool: Tool, firearrow_group: str) -> None:
    topic = f"{firearrow_group}-topic"
    assert tool.run(f"updateTopic -c DefaultCluster -t {topic} -r 3 -w 3 -p 6").startswith(
        f"create topic to {tool.broker} success.\nTopicConfig [topicName={topic}, readQueueNums=3, "
    )
    assert topic in tool.run("topicList").splitlines()
    assert ["DefaultCluster", topic] in rows(tool.run("topicList -c"))
    assert '"readQueueNums":3' in tool.run(f"topicRoute -t {topic}")
    assert rows(tool.run(f"topicRoute -l -t {topic}"))[0][-3:] == ["3", "3", "6"]
    assert tool.run(f"topicClusterList -t {topic}") == "DefaultCluster\n"
    assert "update topic perm from 6 to 4 in" in tool.run(f"updateTopicPerm -b $B -t {topic} -p 4")
    assert "readQueueNums=3" in tool.run(f"updateTopicPerm -b $B -t {topic} -p 6")
    assert tool.run(f"updateTopicPerm -b $B -t {topic} -p 6") == "new perm equals to the old one!\n"
    assert tool.run(f"deleteTopic -c DefaultCluster -t {topic}").splitlines() == [
        f"delete topic [{topic}] from cluster [DefaultCluster] success.",
        f"delete topic [{topic}] from NameServer success.",
    ]
    assert "no name server has a route of topic" in tool.run(f"topicRoute -t {topic}", status=1)


def test_a_topic_of_strict_order_has_its_text(tool: Tool, firearrow_group: str) -> None:
    topic, name = f"{firearrow_group}-order", "broker-a"
    assert f"set cluster orderConf. isOrder=true, orderConf=[{name}:2]" in tool.run(
        f"updateTopic -c DefaultCluster -t {topic} -r 2 -w 2 -o true"
    )
    assert tool.run(f"updateOrderConf -t {topic} -m get").endswith(f"orderConf=[{name}:2] ")
    tool.run(f"updateOrderConf -t {topic} -m put -v {name}:1")
    assert tool.run(f"updateOrderConf -t {topic} -m get").endswith(f"orderConf=[{name}:1] ")
    tool.run(f"updateOrderConf -t {topic} -m delete")
    assert "has no order conf" in tool.run(f"updateOrderConf -t {topic} -m get", status=1)


def test_a_message_is_sent_found_and_read(tool: Tool, firearrow_topic: str) -> None:
    sent = rows(tool.run(f"sendMessage -t {firearrow_topic} -p hello -k k1 -c TagA -b broker-a -i 1"))[0]
    assert sent[:3] == ["broker-a", "1", "SEND_OK"]
    message_id = sent[3]
    (by_key,) = rows(tool.run(f"queryMsgByKey -t {firearrow_topic} -k k1"))
    assert by_key[:3] == [message_id, "1", "0"]
    assert f"@{firearrow_topic}@K@k1@{message_id}@" in by_key[3]
    by_id = tool.run(f"queryMsgById -t {firearrow_topic} -i {message_id} -f UTF-8")
    assert re.search(r"^Message Body: +hello$", by_id, re.MULTILINE)
    assert re.search(r"^Tags: +\[TagA\]$", by_id, re.MULTILINE)
    path = re.search(r"Message Body Path: +(\S+)", by_id)
    assert path is not None
    assert Path(path[1]).read_bytes() == b"hello"
    offset_id = re.search(r"OffsetID: +(\S+)", by_id)
    assert offset_id is not None
    for line in (
        f"queryMsgById -t {firearrow_topic} -i {offset_id[1]}",
        f"queryMsgByUniqueKey -t {firearrow_topic} -i {message_id}",
        f"queryMsgByOffset -t {firearrow_topic} -b broker-a -i 1 -o 0",
    ):
        assert re.search(r"^Queue Offset: +0$", tool.run(line), re.MULTILINE)
    by_time = f"queryMsgByUniqueKey -t {firearrow_topic} -i {message_id} -c DefaultCluster"
    assert re.search(r"^Queue Offset: +0$", tool.run(f"{by_time} -s 0 -e {1 << 50}"), re.MULTILINE)
    assert "that was stored from 0 to 1" in tool.run(f"{by_time} -s 0 -e 1", status=1)
    assert "no cluster 'other' is registered" in tool.run(
        f"queryMsgByKey -t {firearrow_topic} -k k1 -c other", status=1
    )
    by_route = f"queryMsgByOffset -t {firearrow_topic} -b broker-a -i 1 -o 0 -r"
    assert re.search(r"^Queue Offset: +0$", tool.run(f"{by_route} TBW102"), re.MULTILINE)
    assert "no name server has a route of topic 'nowhere'" in tool.run(f"{by_route} nowhere", status=1)
    assert f"MSGID: {message_id} MessageExt [brokerName=broker-a, queueId=1" in tool.run(
        f"printMsg -t {firearrow_topic}"
    )
    assert "BODY: hello" in tool.run(f"printMsgByQueue -t {firearrow_topic} -a broker-a -i 1 -p true -d true")
    assert "Tag: TagA " in tool.run(f"printMsgByQueue -t {firearrow_topic} -a broker-a -i 1 -f true")
    assert "Consume ok" in tool.run(f"consumeMessage -t {firearrow_topic} -b broker-a -i 1")
    assert "max: 1, min: 0" in tool.run(f"queryCq -t {firearrow_topic} -q 1 -i 0")
    assert rows(tool.run(f"topicStatus -t {firearrow_topic}"))[1][:4] == ["broker-a", "1", "0", "1"]
    assert "has no message at 9" in tool.run(f"queryMsgByOffset -t {firearrow_topic} -b broker-a -i 1 -o 9", status=1)
    assert len(rows(tool.run(f"checkMsgSendRT -t {firearrow_topic} -a 3 -s 10"))) == 4


def test_a_message_is_sent_with_its_trace(tool: Tool, firearrow_topic: str) -> None:
    tool.run("updateBrokerConfig -b $B -k validateSystemTopicWhenUpdateTopic -v false")
    tool.run("updateTopic -b $B -t RMQ_SYS_TRACE_TOPIC -r 1 -w 1")
    traced = rows(tool.run(f"sendMessage -t {firearrow_topic} -p hello -k k1 -m true"))[0][3]
    other = rows(tool.run(f"sendMessage -t {firearrow_topic} -p hello -k k1 -m false"))[0][3]
    (row,) = rows(tool.run(f"queryMsgTraceById -i {traced}"))
    assert (row[0], row[-1]) == ("Pub", "success")
    assert not rows(tool.run(f"queryMsgTraceById -i {other}"))


def test_a_broker_that_does_not_answer_is_given_up_after_the_time_that_is_given(tool: Tool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        told = tool.run(f"brokerConsumeStats -b {address} -t 200", status=1)
    assert f"{address} did not answer" in told


def test_a_group_is_made_watched_moved_and_deleted(tool: Tool, firearrow_topic: str, firearrow_group: str) -> None:
    group = firearrow_group
    assert "retryMaxTimes=3" in tool.run(f"updateSubGroup -c DefaultCluster -g {group} -r 3")
    assert re.search(r"retryMaxTimes +=  3", tool.run(f"getConsumerConfig -g {group}"))
    for _ in range(2):
        tool.run(f"sendMessage -t {firearrow_topic} -p x -b broker-a -i 0")
    with Consumer(tool.names, group=group, topics=[firearrow_topic], start="first") as consumer:
        for _ in range(2):
            message = next(iter(consumer))
            with message.process():
                assert message.body == b"x"
        assert group_row(tool, group)[1] == "1"
        members = tool.run(f"consumerConnection -g {group}")
        assert "ConsumeType: CONSUME_PASSIVELY" in members
        client = members.splitlines()[1].split()[0]
        assert "#Consumer Offset#" in tool.run(f"consumerStatus -g {group} -i {client}")
        holder = client.split("@")[0]
        wait_for(lambda: holder in tool.run(f"consumerProgress -g {group} -s true"), "the holder is shown", 30.0)
    moved = tool.run(f"resetOffsetByTime -g {group} -t {firearrow_topic} -s 0")
    assert ["broker-a", "0"] in [row[:2] for row in rows(moved)]
    progress = tool.run(f"consumerProgress -g {group} -t {firearrow_topic}")
    assert "Consume Diff Total: 2" in progress
    tool.run(f"skipAccumulatedMessage -g {group} -t {firearrow_topic}")
    assert "Consume Diff Total: 0" in tool.run(f"consumerProgress -g {group} -t {firearrow_topic}")
    tool.run(f"updateSubGroup -b $B -g {group}-copy")
    tool.run(f"cloneGroupOffset -s {group} -d {group}-copy -t {firearrow_topic}")
    assert f"from broker [{tool.broker}] in cluster [DefaultCluster] success." in tool.run(
        f"deleteSubGroup -c DefaultCluster -g {group} -r true"
    )
    assert re.search(r"retryMaxTimes +=  16", tool.run(f"getConsumerConfig -g {group}")), "asking has made it anew"


def test_the_route_of_a_topic_of_the_broker_itself_is_given_by_name(
    tool: Tool, firearrow_topic: str, firearrow_group: str
) -> None:
    tool.run(f"updateSubGroup -c DefaultCluster -g {firearrow_group}")
    for verb in (f"resetOffsetByTime -s 0 -g {firearrow_group}", f"skipAccumulatedMessage -g {firearrow_group}"):
        moved = rows(tool.run(f"{verb} -t {TIMER_TOPIC} -c DefaultCluster"))
        assert ["broker-a", "0"] in [row[:2] for row in moved]
        for topic in (TIMER_TOPIC, "%LMQ%light"):
            told = tool.run(f"{verb} -t {topic} -c nowhere", status=1)
            assert "no name server has a route of topic" in told
            assert "nowhere" in told
        tool.run(f"{verb} -t {firearrow_topic} -c nowhere")


def group_row(tool: Tool, group: str) -> list[str]:
    """Return the line of a group in the list of all groups."""
    return next(row for row in rows(tool.run("consumerProgress")) if row[0] == group)


def test_brokers_and_name_servers_are_shown_and_changed(tool: Tool) -> None:
    cluster = tool.run("clusterList").splitlines()
    assert cluster[0].split()[:4] == ["#Cluster", "Name", "#Broker", "Name"]
    assert cluster[1].split()[:5] == ["DefaultCluster", "broker-a", "0", tool.broker, "V5_5_0"]
    assert re.search(r"^brokerVersionDesc +: V5_5_0$", tool.run("brokerStatus -b $B"), re.MULTILINE)
    tool.run("updateBrokerConfig -b $B -k fileReservedTime -v 71")
    tool.run("updateBrokerConfig -b $B -k deleteWhen -v 03;04")
    settings = tool.run("getBrokerConfig -c DefaultCluster")
    assert re.search(r"^fileReservedTime +=  71$", settings, re.MULTILINE)
    assert re.search(r"^deleteWhen +=  03;04$", settings, re.MULTILINE)
    tool.run("updateBrokerConfig -b $B -k flushDiskType -v SYNC_FLUSH")
    assert re.search(r"^flushDiskType +=  SYNC_FLUSH$", tool.run("getBrokerConfig -b $B"), re.MULTILINE)
    tool.run("updateBrokerConfig -b $B -k flushDiskType -v ASYNC_FLUSH")
    assert "cannot be changed while the broker runs" in tool.run(
        "updateBrokerConfig -b $B -k mappedFileSizeCommitLog -v 1048576", status=1
    )
    assert f"in name server[{tool.names}] OK" in tool.run("wipeWritePerm -b broker-a")
    assert f"in name server[{tool.names}] OK" in tool.run("addWritePerm -b broker-a")
    tool.run("updateKvConfig -s NS -k k -v v")
    tool.run("deleteKvConfig -s NS -k k")
    assert "orderMessageEnable" in tool.run("getNamesrvConfig")
    for line in ("cleanExpiredCQ -b $B", "cleanUnusedTopic -b $B", "deleteExpiredCommitLog -b $B"):
        assert tool.run(line) == "success"
    assert "#InSyncSlaveNum\t0" in tool.run("haStatus -b $B")
    assert "no cluster 'nowhere' is registered; there are: DefaultCluster" in tool.run(
        "brokerStatus -c nowhere", status=1
    )


def test_files_of_metadata_are_written(tool: Tool, tmp_path: Path, firearrow_topic: str) -> None:
    tool.run(f"exportMetadata -c DefaultCluster -f {tmp_path}")
    assert firearrow_topic in (tmp_path / "metadata.json").read_text()
    tool.run(f"exportConfigs -c DefaultCluster -f {tmp_path}")
    assert '"namesrvSize":1' in (tmp_path / "configs.json").read_text()
    tool.run(f"exportMetrics -c DefaultCluster -f {tmp_path}")
    assert '"evaluateReport"' in (tmp_path / "metrics.json").read_text()
    (tmp_path / "topics.json").write_text(f'[{{"topicName":"{firearrow_topic}-list","readQueueNums":2}}]')
    tool.run(f"updateTopicList -b $B -f {tmp_path}/topics.json")
    (tmp_path / "groups.json").write_text('[{"groupName":"group-list"}]')
    tool.run(f"updateSubGroupList -c DefaultCluster -f {tmp_path}/groups.json")
    assert "group-list" in tool.run("getConsumerConfig -g group-list")
    assert "cannot be read" in tool.run("updateTopicList -b $B -f /nowhere", status=1)
    assert "is no JSON array" in tool.run(f"updateTopicList -b $B -f {tmp_path}/metadata.json", status=1)
