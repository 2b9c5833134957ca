"""The command lines that both tools run, in this order, with every command of Apache's 5.5.0 that exists here.

``$N`` is the name server, ``$B`` the broker's address, ``$T`` a topic, ``$G`` a group with one member, ``$P`` a
producer's group, ``$C`` the member's client id, ``$I`` a message's id, ``$DIR`` a directory, ``$WHO`` the tool.
"""

from typing import Final

LINES: Final = """
updateTopic -c DefaultCluster -t $T -r 4 -w 4
updateTopic -b $B -t $T-order -r 2 -w 2 -o true
updateTopicList -b $B -f $DIR/topics.json
updateTopicPerm -c DefaultCluster -t $T -p 6
updateOrderConf -t $T-order -m get
topicList
topicRoute -t $T
topicRoute -t $T -l
topicStatus -t $T
topicClusterList -t $T
allocateMQ -t $T -i 10.0.0.1@1,10.0.0.2@2
updateSubGroup -c DefaultCluster -g $G-made -r 3
updateSubGroupList -b $B -f $DIR/groups.json
getConsumerConfig -g $G-made
setConsumeMode -b $B -t $T -g $G-made -m PULL -q 0
sendMessage -t $T -p hello -k key-$WHO -c TagA -b broker-a -i 0
queryMsgById -t $T -i $I
queryMsgByKey -t $T -k the-key
queryMsgByUniqueKey -t $T -i $I
queryMsgByOffset -t $T -b broker-a -i 1 -o 0
queryMsgTraceById -i $I
printMsg -t $T
printMsgByQueue -t $T -a broker-a -i 1 -p true -d true -f true
consumeMessage -t $T -b broker-a -i 1
queryCq -t $T -q 1 -i 0
sendMsgStatus -b broker-a -s 10 -c 2
checkMsgSendRT -t $T -a 3 -s 10
brokerConsumeStats -b $B
producerConnection -g $P -t $T
producer -b $B
consumerConnection -g $G
consumerProgress -g $G
consumerProgress
consumerStatus -g $G -i $C
statsAll -t $T
resetOffsetByTime -g $G-made -t $T -s 0
skipAccumulatedMessage -g $G-made -t $T
cloneGroupOffset -s $G -d $G-made -t $T
clusterList
clusterList -m
brokerStatus -b $B
getBrokerConfig -b $B
updateBrokerConfig -b $B -k maxTransferCountOnMessageInMemory -v 32
getNamesrvConfig
updateNamesrvConfig -k orderMessageEnable -v true
updateKvConfig -s NS -k k -v v
deleteKvConfig -s NS -k k
wipeWritePerm -b broker-a
addWritePerm -b broker-a
cleanExpiredCQ -b $B
cleanUnusedTopic -b $B
deleteExpiredCommitLog -b $B
exportMetadata -c DefaultCluster -f $DIR
exportConfigs -c DefaultCluster -f $DIR
exportMetrics -c DefaultCluster -f $DIR
exportPopRecord -b $B
haStatus -b $B
getBrokerEpoch -b broker-a
resetMasterFlushOffset -b $B -o 0
getColdDataFlowCtrInfo -b $B
updateColdDataFlowCtrGroupConfig -b $B -g $G -v 100
removeColdDataFlowCtrGroupConfig -b $B -g $G
setCommitLogReadAheadMode -b $B -c DefaultCluster -m 0
createUser -b $B -u u-$WHO -p word
updateUser -b $B -u u-$WHO -p word2
getUser -b $B -u u-$WHO
listUser -b $B
copyUser -f $B -t $B -u u-$WHO
createAcl -b $B -s User:u-$WHO -r Topic:t -a Pub -d Allow -i 10.0.0.1
updateAcl -b $B -s User:u-$WHO -r Topic:t -a Sub -d Allow -i 10.0.0.1
getAcl -b $B -s User:u-$WHO
listAcl -b $B
copyAcl -f $B -t $B -s User:u-$WHO
deleteAcl -b $B -s User:u-$WHO
deleteUser -b $B -u u-$WHO
deleteSubGroup -c DefaultCluster -g $G-made
deleteTopic -c DefaultCluster -t $T-order
""".strip().splitlines()

ENDLESS: Final = frozenset({"clusterRT", "startMonitoring"})
"""Commands that go on until they are stopped: not compared here."""

ABSENT_LINES: Final = """
addBroker -c $B -b $DIR/broker.conf
removeBroker -c $B -b DefaultCluster:broker-a:0
updateStaticTopic -t $T-static -qn 2 -b broker-a
remappingStaticTopic -t $T-static -b broker-a
getSyncStateSet -a $B -b broker-a
getControllerMetaData -a $B
getControllerConfig -a $B
updateControllerConfig -a $B -k key -v value
electMaster -a $B -b 1 -bn broker-a -c DefaultCluster
cleanBrokerMetadata -a $B -b 1 -bn broker-a -c DefaultCluster
rocksDBConfigToJson -t topics -c DefaultCluster
checkRocksdbCqWriteProgress -c DefaultCluster -t $T
switchTimerEngine -b $B -e F
getBrokerLiteInfo -b $B
getParentTopicInfo -p $T
getLiteTopicInfo -p $T -l lite
getLiteClientInfo -p $T -g $G -c $C
getLiteGroupInfo -p $T -g $G
triggerLiteDispatch -p $T -g $G
""".strip().splitlines()
"""Commands about what our servers do not have, as Apache's tool asks them."""

LOCAL: Final = frozenset({"dumpCompactionLog", "exportMetadataInRocksDB"})
"""Commands about what our servers do not have, which read files of a broker and ask no server."""


def verb_of(line: str) -> str:
    """Return the command of a line."""
    return line.split()[0]
