"""Apache's own servers and the stock clients, as judges of ours.

    with ApacheNameServer() as names, ApacheBroker(name_servers=[names.address]) as broker:
        topic = broker.create_topic("orders")
        with JudgeProcess("go") as go:
            sent = go.at(names.address).send(topic, 1000)
            go.at(names.address).receive(topic, 1000).assert_exactly(sent)

`python -m firearrow.testing.apache install` fetches and builds all that is needed, once.
"""

from firearrow.testing.apache.judge import CAPABILITIES, CLIENTS, Judge, JudgeProcess, Subscription, fresh
from firearrow.testing.apache.mqadmin import AdminReply, Mqadmin, MqadminFailed
from firearrow.testing.apache.payload import Payload
from firearrow.testing.apache.ports import free_broker_port, free_port
from firearrow.testing.apache.process import ChildFailed
from firearrow.testing.apache.reports import Delivery, ReceiveReport, SendReport
from firearrow.testing.apache.server import Server
from firearrow.testing.apache.servers import ApacheBroker, ApacheNameServer, FireArrowBroker, FireArrowNameServer

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
