"""Apache's own servers and the stock clients, as judges of ours.

    with ApacheNameServer() as names, ApacheBroker(name_servers=[names.address]) as broker:
        topic = broker.create_topic("orders")
        with JudgeProcess("go") as go:
            sent = go.at(names.address).send(topic, 1000)
            go.at(names.address).receive(topic, 1000).assert_exactly(sent)

`python -m judges install` fetches and builds all that is needed, once.
"""

from firearrow.testing.ports import free_broker_port, free_port
from judges.judge import CAPABILITIES, CLIENTS, Judge, JudgeProcess, Subscription, fresh
from judges.mqadmin import AdminReply, Mqadmin, MqadminFailed
from judges.payload import Payload
from judges.process import ChildFailed
from judges.reports import Delivery, ReceiveReport, SendReport
from judges.server_process import Server
from judges.servers import ApacheBroker, ApacheNameServer, FireArrowBroker, FireArrowNameServer

__all__ = [
    "CAPABILITIES",
    "CLIENTS",
    "AdminReply",
    "ApacheBroker",
    "ApacheNameServer",
    "ChildFailed",
    "Delivery",
    "FireArrowBroker",
    "FireArrowNameServer",
    "Judge",
    "JudgeProcess",
    "Mqadmin",
    "MqadminFailed",
    "Payload",
    "ReceiveReport",
    "SendReport",
    "Server",
    "Subscription",
    "free_broker_port",
    "free_port",
    "fresh",
]
