"""The routes of topics, as the name servers answer."""

import random
from dataclasses import dataclass, field

from firearrow import fastjson
from firearrow.errors import FireArrowError
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.naming.route import TopicRouteData
from firearrow.protocol.requests.naming.route import GetRouteInfoByTopic
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address


@dataclass
class Routes:
    """The routes of topics, as the name servers answer; known routes stay known while no name server answers."""

    caller: Caller
    name_servers: list[Address]
    rng: random.Random
    queues: dict[str, list[MessageQueue]] = field(default_factory=dict)
    brokers: dict[str, Address] = field(default_factory=dict)

    async def refresh(self, topic: str) -> None:
        """Ask a name server by chance, and the others when it does not answer."""
        for address in self.rng.sample(self.name_servers, len(self.name_servers)):
            try:
                request = GetRouteInfoByTopic(topic=topic, accept_standard_json_only=True)
                reply = await self.caller.call(address, request, timeout_ms=1_000)
            except FireArrowError:
                continue
            route = fastjson.decode(reply.body, TopicRouteData)
            for broker in route.broker_datas:
                self.brokers[str(broker.broker_name)] = Address.parse(broker.broker_addrs[0])
            self.queues[topic] = sorted(
                MessageQueue(topic, str(data.broker_name), queue_id)
                for data in route.queue_datas
                for queue_id in range(data.write_queue_nums)
            )
            return
