"""docs/reference/mqadmin.md says of every command of Apache's tools what it does here; this holds it to that."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from judges import FireArrowBroker, FireArrowNameServer, Mqadmin, fresh
from judges.install.artifacts import SERVER_VERSIONS, TOOLS_VERSION
from judges.producers import produce
from judges.server_process import wait_for
from judges.shared import SharedServers

pytestmark = pytest.mark.apache

PAGE = Path(__file__).parents[3] / "docs/reference/mqadmin.md"
COMMAND = re.compile(r"`(\w+)`")
TOPIC, GROUP = fresh("page"), fresh("group")
REFUSED_BY_THE_BROKER = re.compile(
    r"CODE: 3 +DESC: +request type \d+ not supported|only for controllerMode|broker-a\]? +error"
)
KNOWN_FAILURES = {"remappingStaticTopic", "rocksDBConfigToJson", "exportConfigs"}
"""Commands that fail in the tools themselves before the broker is asked."""

WORKING = {
    "updateTopicList": "-b $B -f $DIR/topics.json",
    "updateSubGroupList": "-b $B -f $DIR/groups.json",
    "printMsgByQueue": f"-n $N -t {TOPIC} -a broker-a -i 0 -p true -d true",
    "sendMsgStatus": "-n $N -b broker-a -s 10 -c 2",
    "brokerConsumeStats": "-n $N -b $B -l 0",
    "allocateMQ": f"-n $N -t {TOPIC} -i 127.0.0.1@1",
    "checkMsgSendRT": f"-n $N -t {TOPIC} -a 2 -s 10",
    "getConsumerConfig": f"-n $N -g {GROUP}",
    "exportMetadata": "-n $N -c DefaultCluster -f $DIR",
    "exportConfigs": "-n $N -c DefaultCluster -f $DIR",
    "exportMetrics": "-n $N -c DefaultCluster -f $DIR",
    "updateKvConfig": "-n $N -s NS -k k -v v",
    "deleteKvConfig": "-n $N -s NS -k k",
    "getNamesrvConfig": "-n $N",
    "updateNamesrvConfig": "-n $N -k orderMessageEnable -v true",
    "cleanExpiredCQ": "-n $N -b $B",
    "haStatus": "-n $N -b $B",
    "resetMasterFlushOffset": "-n $N -b $B -o 0",
}
PRINTED = {
    "updateTopicList": "success",
    "updateSubGroupList": "success",
    "printMsgByQueue": "broker-a",
    "sendMsgStatus": "SEND_OK",
    "brokerConsumeStats": "#Topic",
    "allocateMQ": '"queueId":3',
    "checkMsgSendRT": "true",
    "getConsumerConfig": GROUP,
    "getNamesrvConfig": "orderMessageEnable",
    "haStatus": "#InSyncSlaveNum",
}
ACCESS = "-s User:u -r Topic:t -a Pub -d Allow -i *"
REFUSED = {
    "setConsumeMode": f"-n $N -b $B -t {TOPIC} -g {GROUP} -m PULL -q 0",
    "exportPopRecord": "-n $N -b $B",
    "getBrokerEpoch": "-n $N -b broker-a",
    "updateStaticTopic": f"-n $N -t {TOPIC}-static -qn 2 -c DefaultCluster",
    "remappingStaticTopic": f"-n $N -t {TOPIC}-static -c DefaultCluster",
    "createUser": "-n $N -b $B -u u -p word",
    "updateUser": "-n $N -b $B -u u -p word",
    "deleteUser": "-n $N -b $B -u u",
    "getUser": "-n $N -b $B -u u",
    "listUser": "-n $N -b $B",
    "copyUser": "-n $N -f $B -t $B -u u",
    "createAcl": f"-n $N -b $B {ACCESS}",
    "updateAcl": f"-n $N -b $B {ACCESS}",
    "deleteAcl": "-n $N -b $B -s User:u",
    "getAcl": "-n $N -b $B -s User:u",
    "listAcl": "-n $N -b $B",
    "copyAcl": "-n $N -f $B -t $B -s User:u",
    "getColdDataFlowCtrInfo": "-n $N -b $B",
    "updateColdDataFlowCtrGroupConfig": f"-n $N -b $B -g {GROUP} -v 100",
    "removeColdDataFlowCtrGroupConfig": f"-n $N -b $B -g {GROUP}",
    "setCommitLogReadAheadMode": "-n $N -b $B -m 0",
    "rocksDBConfigToJson": "-n $N -b $B -t topics",
    "checkRocksdbCqWriteProgress": "-n $N -c DefaultCluster",
    "switchTimerEngine": "-n $N -b $B -e F",
    "getBrokerLiteInfo": "-n $N -b $B",
    "getParentTopicInfo": f"-n $N -p {TOPIC}",
    "getLiteTopicInfo": f"-n $N -p {TOPIC} -l one",
    "getLiteClientInfo": f"-n $N -p {TOPIC} -g {GROUP} -c client",
    "getLiteGroupInfo": f"-n $N -p {TOPIC} -g {GROUP}",
    "triggerLiteDispatch": f"-n $N -p {TOPIC} -g {GROUP}",
    "updateAclConfig": "-n $N -b $B -a access -s 12345678",
    "deleteAclConfig": "-n $N -b $B -a access",
    "clusterAclConfigVersion": "-n $N -b $B",
    "updateGlobalWhiteAddr": "-n $N -b $B -g 127.0.0.1",
    "exportConfigs": "-n $N -c DefaultCluster -f $DIR",
}


def listed(version: str) -> dict[str, set[str]]:
    """The commands of the page by what they do, for one version of the tools."""
    found: dict[str, set[str]] = {"Works": set(), "Refused": set(), "Never run": set()}
    for section in PAGE.read_text().split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        told = re.fullmatch(r"(Works|Refused|Never run)(?:, in both versions| in (\S+))", heading)
        assert told is not None, heading
        if told.group(2) in (None, version):
            found[told.group(1)] |= {
                name for row in text.splitlines() if row.startswith("| ") for name in COMMAND.findall(row.split("|")[2])
            }
    return found


class Tools:
    """The tools of one version at our servers."""

    def __init__(self, mqadmin: Mqadmin, names: FireArrowNameServer, broker: FireArrowBroker, directory: Path) -> None:
        self.version = TOOLS_VERSION[mqadmin.version]
        self._mqadmin = mqadmin
        self._places = {"$N": names.address, "$B": broker.address, "$DIR": str(directory)}

    def commands(self) -> set[str]:
        """Every command that they have."""
        lines = self._mqadmin.execute("").out.splitlines()
        return {line.split()[0] for line in lines if line.startswith("   ")}

    def run(self, command: str, words: str) -> tuple[bool, str]:
        """Whether a command ended without an exception, and what it printed."""
        for name, place in self._places.items():
            words = words.replace(name, place)
        reply = self._mqadmin.execute(f"{command} {words}")
        text = f"{reply.out}\n{reply.err}"
        return reply.exit_status is None and "Exception" not in text, text


@pytest.fixture(scope="module", params=SERVER_VERSIONS)
def tools(
    request: pytest.FixtureRequest,
    our_names: FireArrowNameServer,
    our_broker: FireArrowBroker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Tools]:
    directory = tmp_path_factory.mktemp("mqadmin")
    one = {"topicName": f"{TOPIC}-list", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "attributes": {}}
    (directory / "topics.json").write_text(json.dumps([one]))
    (directory / "groups.json").write_text(json.dumps([{"groupName": f"{GROUP}-list"}]))
    our_broker.create_topic(TOPIC)
    with Mqadmin(str(request.param)) as mqadmin:
        mqadmin.run(f"updateSubGroup -n {our_names.address} -c DefaultCluster -g {GROUP}")
        mqadmin.run(f"sendMessage -n {our_names.address} -t {TOPIC} -p hello -b broker-a -i 0")
        yield Tools(mqadmin, our_names, our_broker, directory)


def test_the_page_lists_every_command_once(tools: Tools) -> None:
    page = listed(tools.version)
    every = [name for names in page.values() for name in names]
    assert sorted(every) == sorted(tools.commands())


def test_the_page_counts_right() -> None:
    text = " ".join(PAGE.read_text().split())
    for version in ("5.5.0", "4.9.8"):
        page = listed(version)
        works, refused, never = (len(page[key]) for key in ("Works", "Refused", "Never run"))
        sentence = f"{works + refused + never}( commands)?: {works} work, {refused} are refused, {never} were never run"
        assert re.search(f"{re.escape(version)} has {sentence}", text), sentence


def test_what_works(tools: Tools) -> None:
    for command in sorted(listed(tools.version)["Works"] & set(WORKING)):
        works, text = tools.run(command, WORKING[command])
        assert works, f"{command}: {text}"
        assert PRINTED.get(command, "success") in text, f"{command}: {text}"


def test_a_producer_is_listed(tools: Tools, shared_servers: SharedServers, our_names: FireArrowNameServer) -> None:
    client = shared_servers.client("java-5.5.0")
    producing = produce(client.at(our_names.address), TOPIC)
    try:
        wait_for(lambda: f"P-{TOPIC}" in tools.run("producer", "-n $N -b $B")[1], "the producer is listed", 60.0)
    finally:
        producing.halt()


def test_what_is_refused(tools: Tools) -> None:
    refused = listed(tools.version)["Refused"]
    assert refused <= set(REFUSED)
    for command in sorted(refused):
        works, text = tools.run(command, REFUSED[command])
        if command in KNOWN_FAILURES:
            assert not works, f"{command}: {text}"
        else:
            assert REFUSED_BY_THE_BROKER.search(text), f"{command}: {text}"
