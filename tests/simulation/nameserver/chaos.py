"""One random cluster: drawn from a seed, disturbed for some minutes of virtual time, then left in peace and judged.

Held throughout:

* what any name server or client shows is sound: each broker once, with queues and with an address;
* the table's own rules hold (every seat has its lease, every index agrees with the other);
* nobody who has been dead and unheard for longer than its lease is shown, nobody who crashed in sight for long;
* whoever has been undisturbed for long enough is shown.

Held at the end, after the last repair:

* every name server shows exactly what the living brokers announce, and every client has heard it;
* every text that was acknowledged is there, whatever crashed after the acknowledgement.
"""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Final

from firearrow.errors import FireArrowError
from firearrow.nameserver.config import NameServerConfig
from firearrow.nameserver.server import NameServer
from firearrow.protocol.requests.naming.kv_config import PutKvConfig
from firearrow.remoting.caller import Caller
from firearrow.testing.sim.transport import LinkProfile
from firearrow.testing.sim.world import Node, World
from tests.simulation.nameserver.cluster import Picture, SimCluster, picture
from tests.simulation.nameserver.fakes import REGISTER_TIMEOUT_MS, FakeBroker, Seen, Topics

SCAN_S: Final = 5.0
SLACK_S: Final = 3.0
CONNECT_S: Final = 3.0


@dataclass(frozen=True)
class Options:
    """The shape of a run. Printed when it fails."""

    name_servers: int
    brokers: int
    slaves: int
    clients: int
    topics: int
    period_s: float
    timeout_ms: int
    latency_s: float
    steps: int
    step_s: float

    @classmethod
    def draw(cls, rng: random.Random) -> "Options":
        period_s = rng.choice([3.0, 10.0, 30.0])
        return cls(
            name_servers=rng.randint(1, 3),
            brokers=rng.randint(1, 6),
            slaves=rng.randint(0, 2),
            clients=rng.randint(1, 3),
            topics=rng.randint(2, 6),
            period_s=period_s,
            timeout_ms=int(rng.choice([3.5, 4.0, 6.0]) * period_s * 1000),
            latency_s=rng.choice([0.001, 0.01, 0.1]),
            steps=rng.randint(15, 45),
            step_s=rng.choice([2.0, 10.0, 30.0]),
        )

    @property
    def expiry_s(self) -> float:
        """The longest time that dead brokers may be shown, counted from when they were last heard."""
        return self.timeout_ms / 1000 + SCAN_S + SLACK_S

    @property
    def rejoin_s(self) -> float:
        """The longest time that living brokers may be missing: a registration that failed, and the next one."""
        return 2 * self.period_s + REGISTER_TIMEOUT_MS / 1000 + CONNECT_S + SLACK_S


@dataclass
class Chaos:
    """A run in progress. Times are the loop's; names are the nodes'."""

    world: World
    options: Options
    cluster: SimCluster
    rng: random.Random
    disturbed_s: dict[str, float] = field(default_factory=dict)
    repaired_s: float = 0.0
    dead_since_s: dict[str, float] = field(default_factory=dict)
    crashed: dict[str, tuple[float, list[str]]] = field(default_factory=dict)
    frozen: dict[str, None] = field(default_factory=dict)
    texts: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def now_s(self) -> float:
        return self.world.loop.time()

    async def run(self) -> None:
        self.build()
        for _ in range(self.options.steps):
            await asyncio.sleep(self.rng.uniform(0.1, self.options.step_s))
            self.check_soundness()
            self.check_the_dead()
            self.check_the_crashed()
            self.check_the_undisturbed()
            await self.disturb()
        await self.repair()
        await asyncio.sleep(self.options.expiry_s + self.options.rejoin_s)
        self.check_soundness()
        self.check_convergence()
        self.check_texts()

    def build(self) -> None:
        options, cluster = self.options, self.cluster
        for _ in range(options.name_servers):
            cluster.add_name_server()
        names = [f"T{number}" for number in range(options.topics)]
        for number in range(options.brokers):
            chosen = self.rng.sample(names, self.rng.randint(2, len(names)))
            topics = Topics({topic: self.rng.randint(1, 16) for topic in chosen})
            for broker_id in range(options.slaves + 1):
                cluster.add_broker(
                    f"broker{number}-",
                    topics,
                    broker_id=broker_id,
                    period_s=options.period_s,
                    timeout_ms=options.timeout_ms,
                    compressed=self.rng.random() < 0.3,
                )
        for _ in range(options.clients):
            cluster.add_client(names, options.period_s)
        for node in self.world.nodes:
            self.disturbed_s[node] = self.now_s

    # Disturbances

    async def disturb(self) -> None:
        kinds = (
            self.crash_broker, self.lose_broker, self.freeze_broker, self.thaw, self.restart_brokers, self.cut,
            self.cut, self.heal, self.reset, self.crash_name_server, self.change_topic, self.change_topic,
            self.put_text, self.put_text, self.stop_broker,
        )  # fmt: skip
        await self.rng.choice(kinds)()

    def noted(self, kind: str, *nodes: Node) -> None:
        self.cluster.seen.fault(kind)
        for node in nodes:
            self.disturbed_s[node.name] = self.now_s

    def living(self) -> list[FakeBroker]:
        return [b for b in self.cluster.brokers if b.node.running and b.node.name not in self.frozen]

    async def crash_broker(self) -> None:
        for broker in self.rng.sample(self.living(), min(1, len(self.living()))):
            witnesses = [node for node in self.cluster.servers if self.registered(broker, node)]
            self.noted("crash", broker.node)
            self.dead_since_s[broker.node.name] = self.now_s
            self.crashed[broker.node.name] = (self.now_s, witnesses)
            await broker.node.crash()

    async def lose_broker(self) -> None:
        for broker in self.rng.sample(self.living(), min(1, len(self.living()))):
            self.noted("power loss", broker.node)
            self.dead_since_s[broker.node.name] = self.now_s
            await broker.node.power_loss()

    async def stop_broker(self) -> None:
        for broker in self.rng.sample(self.living(), min(1, len(self.living()))):
            self.noted("stop", broker.node)
            broker.says_goodbye = True
            await broker.node.stop()
            broker.says_goodbye = False
            self.dead_since_s[broker.node.name] = self.now_s

    async def freeze_broker(self) -> None:
        for broker in self.rng.sample(self.living(), min(1, len(self.living()))):
            self.noted("freeze", broker.node)
            self.frozen[broker.node.name] = None
            self.dead_since_s[broker.node.name] = self.now_s
            broker.node.freeze()

    async def thaw(self) -> None:
        for name in list(self.frozen):
            self.noted("thaw", self.world.nodes[name])
            del self.frozen[name]
            self.dead_since_s.pop(name, None)
            self.world.nodes[name].thaw()

    async def restart_brokers(self) -> None:
        for broker in self.cluster.brokers:
            if not broker.node.running and self.rng.random() < 0.7:
                self.noted("restart", broker.node)
                self.dead_since_s.pop(broker.node.name, None)
                self.crashed.pop(broker.node.name, None)
                await broker.node.restart(broker.run)

    async def cut(self) -> None:
        names = [node.name for node in self.cluster.names]
        others = [name for name in self.world.nodes if name not in names]
        left = self.rng.sample(names, self.rng.randint(1, len(names)))
        right = self.rng.sample(others, self.rng.randint(1, len(others)))
        self.noted("cut", *(self.world.nodes[name] for name in (*left, *right)))
        if self.rng.random() < 0.5:
            left, right = right, left
        self.world.network.partition(left, right, one_way=self.rng.random() < 0.4)

    async def heal(self) -> None:
        self.noted("heal", *self.world.nodes.values())
        self.repaired_s = self.now_s
        self.world.network.heal()

    async def reset(self) -> None:
        names, broker = self.rng.choice(self.cluster.names), self.rng.choice(self.cluster.brokers)
        self.noted("reset", names, broker.node)
        self.world.network.reset(names.name, broker.node.name)

    async def crash_name_server(self, chosen: Node | None = None) -> None:
        node = chosen or self.rng.choice(self.cluster.names)
        self.noted("name server", node)
        await (node.power_loss() if self.rng.random() < 0.5 else node.crash())
        await asyncio.sleep(self.rng.uniform(0.0, self.options.step_s))
        self.noted("name server restart", node)
        node.start(self.cluster.serve)

    async def change_topic(self) -> None:
        for broker in self.rng.sample(self.living(), min(1, len(self.living()))):
            self.noted("topic", *(b.node for b in self.cluster.brokers if b.name == broker.name))
            broker.change(self.rng.choice(list(broker.topics.queues)), self.rng.randint(1, 16))

    async def put_text(self) -> None:
        number = self.rng.randrange(len(self.cluster.names))
        key, value = f"k{self.rng.randint(0, 3)}", str(self.rng.random())
        caller = Caller(self.cluster.clients[0].node.network)
        request = PutKvConfig(namespace="N", key=key, value=value)
        server = self.cluster.names[number].name
        self.texts.pop((server, key), None)  # until it is acknowledged, either value may survive
        try:
            await caller.call(self.cluster.name_servers[number], request, timeout_ms=1_000)
        except FireArrowError:
            self.cluster.seen.failed += 1
        else:
            self.texts[server, key] = value
            self.cluster.seen.fault("text")
            if self.rng.random() < 0.5:
                await self.crash_name_server(self.cluster.names[number])
        finally:
            await caller.close()

    async def repair(self) -> None:
        await self.thaw()
        await self.restart_brokers()
        await self.heal()

    # Judgement

    def check_soundness(self) -> None:
        for server in self.cluster.servers.values():
            check_table(server)
            for topic in server.routes.topics.topics():
                self.cluster.shown(server, topic)

    def check_the_dead(self) -> None:
        for name, since_s in self.dead_since_s.items():
            if self.now_s - max(since_s, self.repaired_s) <= self.options.expiry_s:
                continue
            address = next(broker.address for broker in self.cluster.brokers if broker.node.name == name)
            for node, server in self.cluster.servers.items():
                if self.now_s - self.disturbed_s[node] > self.options.expiry_s:
                    held = [key for key in server.routes.leases if key[1] == address]
                    assert not held, f"{node} still shows {name}, dead for {self.now_s - since_s:.1f} s"

    def check_the_crashed(self) -> None:
        # A process that ends takes its connections along, and nothing stood in their way.
        at_once_s = 2.0 + 20 * self.options.latency_s
        for name, (since_s, witnesses) in self.crashed.items():
            address = next(broker.address for broker in self.cluster.brokers if broker.node.name == name)
            for node in witnesses:
                undisturbed = max(self.disturbed_s[name], self.disturbed_s[node]) <= since_s
                if undisturbed and self.now_s - since_s > at_once_s:
                    held = [key for key in self.cluster.servers[node].routes.leases if key[1] == address]
                    assert not held, f"{node} still shows {name}, which crashed {self.now_s - since_s:.1f} s ago"
                    self.cluster.seen.fault("seen to go at once")

    def check_the_undisturbed(self) -> None:
        for broker in self.living():
            for node, server in self.cluster.servers.items():
                if self.registered(broker, node):
                    seated = server.routes.names.get(broker.name)
                    assert seated is not None, f"{node} does not know {broker.name}"
                    assert seated.addresses.get(broker.broker_id) == broker.address, f"{node} misses {broker.address}"

    def registered(self, broker: FakeBroker, node: str) -> bool:
        """Whether a broker must be known by a name server: nothing has disturbed them for long enough."""
        left, network = broker.node.name, self.world.network
        quiet_s = self.now_s - max(self.disturbed_s[left], self.disturbed_s[node])
        return quiet_s > self.options.rejoin_s and network.reachable(left, node) and network.reachable(node, left)

    def expected(self, topic: str) -> Picture:
        """The routes that the living brokers announce."""
        members: dict[str, dict[int, str]] = {}
        queues: dict[str, int] = {}
        for broker in self.living():
            if topic in broker.topics.queues:
                members.setdefault(broker.name, {})[broker.broker_id] = broker.address
                queues[broker.name] = broker.topics.queues[topic]
        return {name: (queues[name], members[name]) for name in members}

    def check_convergence(self) -> None:
        topics = [f"T{number}" for number in range(self.options.topics)]
        assert len(self.cluster.servers) == self.options.name_servers
        for topic in topics:
            expected = self.expected(topic)
            for node, server in self.cluster.servers.items():
                shown = self.cluster.shown(server, topic)
                assert shown == expected, f"{node} shows {shown} for {topic}, not {expected}"
            for client in self.cluster.clients:
                route = client.routes[topic]
                heard = {} if route is None else picture(route)
                assert heard == expected, f"{client.node.name} heard {heard} for {topic}, not {expected}"

    def check_texts(self) -> None:
        for (node, key), value in self.texts.items():
            kept = self.cluster.servers[node].texts.get("N", key)
            assert kept == value, f"{node} forgot {key}={value}, which it acknowledged: it has {kept}"


def check_table(server: NameServer) -> None:
    """The rules of the table, as ``routes`` states them."""
    routes = server.routes
    seats = [(name.name, address) for name in routes.names.values() for address in name.addresses.values()]
    leases = [(lease.member.name, lease.member.address) for lease in routes.leases.values()]
    assert sorted(seats) == sorted(leases), f"seats {seats}, leases {leases}"
    assert all(name.addresses for name in routes.names.values())
    listed = {name for names in routes.clusters.values() for name in names}
    assert listed == set(routes.names)
    assert all(routes.clusters.values())
    pairs = {(topic, name) for topic in routes.topics.topics() for name in routes.topics.of(topic) or {}}
    assert pairs == {(topic, name) for name in routes.names for topic in routes.topics.at(name)}


def run_chaos(seed: int) -> Seen:
    """Run one random cluster; what it saw comes back, what went wrong is raised with the options."""
    rng = random.Random(f"{seed}/chaos")
    options = Options.draw(rng)
    links = LinkProfile(latency_mean_s=options.latency_s, latency_min_s=options.latency_s / 10)
    world = World(seed, links=links)
    cluster = SimCluster(world, NameServerConfig())
    try:
        world.run(lambda world: Chaos(world, options, cluster, rng).run())
    except BaseException as error:
        error.add_note(f"seed {seed}: {options}")
        raise
    return cluster.seen
