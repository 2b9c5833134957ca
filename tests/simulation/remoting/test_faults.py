"""Server and caller in a simulated cluster whose cables and machines fail."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from firearrow.errors import ConnectionFailed, ConnectionLost, FireArrowError, Overloaded, RequestTimedOut
from firearrow.protocol.requests.naming.kv_config import GetKvConfig, GetKvConfigAnswer, PutKvConfig
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Answer, Call, Handlers, Later, Peer
from firearrow.remoting.limits import Limits
from firearrow.remoting.reply import Reply
from firearrow.remoting.server import Server
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import Node, World

PORT = 9876
GET = GetKvConfig(namespace="n", key="k")


class Site:
    """A server on a node: echoes at once, or parks and pays every few milliseconds."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits
        self.handled: Counter[str] = Counter()
        self.opened: list[Peer] = []
        self.ended: list[Peer] = []
        self.parked: list[tuple[Later, str]] = []
        self.server: Server | None = None

    async def program(self, node: Node) -> None:
        handlers = Handlers()
        handlers.on(GetKvConfig, self._get)
        handlers.on(PutKvConfig, self._put)
        self.parked = []
        self.server = Server(
            node.network, handlers, self.limits, on_connect=self.opened.append, on_disconnect=self.ended.append
        )
        await self.server.start(Address(node.host, PORT))
        try:
            while True:
                await asyncio.sleep(0.005)
                parked, self.parked = self.parked, []
                for later, value in parked:
                    later.answer(Answer(body=value.encode()))
        finally:
            await self.server.stop()

    def _get(self, request: GetKvConfig, call: Call) -> Answer:
        self.handled[request.key] += 1
        return Answer(GetKvConfigAnswer(value=request.key), call.body)

    def _put(self, request: PutKvConfig, call: Call) -> Later:
        self.handled[request.value] += 1
        later = call.later()
        self.parked.append((later, request.value))
        return later

    def owes_nothing(self) -> bool:
        assert self.server is not None
        endpoint = self.server._endpoint
        assert endpoint is not None
        return endpoint.budget.held == endpoint.partials.held == 0


async def until(condition: Any, seconds: float = 500) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.01)


def setting(world: World, limits: Limits | None = None) -> tuple[Site, Node, Address, Caller]:
    """A running server and a caller on another node."""
    site, node, client = Site(limits), world.node("server"), world.node("client")
    node.start(site.program)
    return site, node, Address(node.host, PORT), Caller(client.network)


async def reach(caller: Caller, address: Address) -> None:
    """Call until it works."""
    async with asyncio.timeout(60):
        while True:
            try:
                await caller.call(address, GET, timeout_ms=1500)
            except FireArrowError:
                await asyncio.sleep(0.05)
            else:
                return


@pytest.mark.parametrize("seed", range(10))
def test_calls_over_chopped_and_slow_streams(seed: int) -> None:
    async def scenario(world: World) -> None:
        site, _, address, caller = setting(world)
        await reach(caller, address)

        async def one(n: int) -> None:
            body = bytes([n % 256]) * world.rng.randrange(20_000)
            if n % 2:
                reply = await caller.call(address, PutKvConfig(namespace="n", key="k", value=str(n)), body)
                assert reply.body == b"%d" % n
            else:
                got = await caller.call(address, GetKvConfig(namespace="n", key=str(n)), body)
                assert (got.answer.value, got.body) == (str(n), body)

        async with asyncio.TaskGroup() as group:
            for n in range(200):
                group.create_task(one(n))
        assert set(site.handled.values()) == {1}
        assert site.owes_nothing()
        await caller.close()
        await until(lambda: len(site.ended) == 1)
        assert world.network.connection_count == 0

    World(seed).run(scenario)


def test_a_partition_is_noticed_and_left_behind() -> None:
    async def scenario(world: World) -> None:
        _, _, address, caller = setting(world)
        await reach(caller, address)
        world.network.partition(["server"], ["client"])
        began = world.loop.time()
        with pytest.raises(RequestTimedOut):
            await caller.call(address, GET, timeout_ms=2000)
        assert 2.0 <= world.loop.time() - began <= 2.2
        with pytest.raises(ConnectionFailed):  # the silent connection was given up, and a new one cannot be made
            await caller.call(address, GET, timeout_ms=2000)
        world.network.heal()
        await reach(caller, address)
        await caller.close()

    World(1).run(scenario)


def test_a_one_way_partition() -> None:
    async def scenario(world: World) -> None:
        site, _, address, caller = setting(world)
        await reach(caller, address)
        world.network.partition(["server"], ["client"], one_way=True)
        with pytest.raises(RequestTimedOut):
            await caller.call(address, PutKvConfig(namespace="n", key="k", value="did it happen?"), timeout_ms=2000)
        assert site.handled["did it happen?"] == 1
        world.network.heal()
        await reach(caller, address)
        await caller.close()

    World(2).run(scenario)


def test_a_reset_loses_what_waited_and_nothing_else() -> None:
    async def scenario(world: World) -> None:
        site, _, address, caller = setting(world)
        await reach(caller, address)
        outcomes: list[Reply[Any] | FireArrowError] = []
        for n in range(20):
            caller.begin(address, PutKvConfig(namespace="n", key="k", value=str(n)), b"", outcomes.append)
        await asyncio.sleep(0)
        world.network.reset("server", "client")
        await until(lambda: len(outcomes) == 20)
        assert {type(outcome) for outcome in outcomes} <= {ConnectionLost, Reply}
        await reach(caller, address)
        await until(lambda: len(site.ended) == 1)
        assert site.owes_nothing()
        await caller.close()

    World(3).run(scenario)


@pytest.mark.parametrize("power", [False, True])
def test_a_server_that_crashes_and_comes_back(power: bool) -> None:
    async def scenario(world: World) -> None:
        _, node, address, caller = setting(world)
        await reach(caller, address)
        outcomes: list[Reply[Any] | FireArrowError] = []
        caller.begin(address, PutKvConfig(namespace="n", key="k", value="1"), b"", outcomes.append)
        await (node.power_loss() if power else node.crash())
        await until(lambda: outcomes)
        assert isinstance(outcomes[0], RequestTimedOut if power else ConnectionLost)
        await node.restart()
        await reach(caller, address)
        await caller.close()

    World(4).run(scenario)


def test_a_client_that_loses_power_is_forgotten_when_it_has_been_silent() -> None:
    async def scenario(world: World) -> None:
        site, node = Site(), world.node("server")
        node.start(site.program)
        address = Address(node.host, PORT)

        async def client(node: Node) -> None:
            await reach(Caller(node.network), address)
            await asyncio.sleep(1e6)

        machine = world.node("client")
        machine.start(client)
        await until(lambda: site.handled)
        await machine.power_loss()
        began = world.loop.time()
        await until(lambda: site.ended)
        assert 115 <= world.loop.time() - began <= 135
        assert site.ended == site.opened

    World(5).run(scenario)


def test_a_client_that_crashes_is_forgotten_at_once() -> None:
    async def scenario(world: World) -> None:
        site, node = Site(), world.node("server")
        node.start(site.program)
        address = Address(node.host, PORT)

        async def client(node: Node) -> None:
            await reach(Caller(node.network), address)
            await asyncio.sleep(1e6)

        machine = world.node("client")
        machine.start(client)
        await until(lambda: site.handled)
        await machine.crash()
        await until(lambda: site.ended, seconds=1)

    World(6).run(scenario)


def test_a_slow_reader_holds_up_nobody_but_itself() -> None:
    async def scenario(world: World) -> None:
        limits = Limits(write_high_water_bytes=64 * 1024)
        site, node = Site(limits), world.node("server")
        node.start(site.program)
        address = Address(node.host, PORT)
        slow, quick = Caller(world.node("slow").network), Caller(world.node("quick").network)
        await reach(slow, address)
        await reach(quick, address)
        world.network.throttle("slow", 100_000)
        outcomes: list[Reply[Any] | FireArrowError] = []
        body = b"x" * 50_000
        for _ in range(40):
            slow.begin(address, GET, body, outcomes.append, timeout_ms=120_000)
        assert site.server is not None
        slow_peer, worst, unsent = site.server.peers[0], 0.0, 0
        while len(outcomes) < 40:
            began = world.loop.time()
            await quick.call(address, GET)
            worst = max(worst, world.loop.time() - began)
            unsent = max(unsent, slow_peer._transport.get_write_buffer_size())  # type: ignore[attr-defined]
            await asyncio.sleep(0.05)
        assert worst < 0.1
        assert unsent < 64 * 1024 + 6 * len(body)
        assert all(isinstance(outcome, Reply) and outcome.body == body for outcome in outcomes)
        await slow.close()
        await quick.close()

    World(7).run(scenario)


Outcomes = dict[str, list[Reply[Any] | FireArrowError]]


async def load(world: World, caller: Caller, address: Address, name: str, outcomes: Outcomes) -> None:
    for n in range(150):
        key = f"{name}-{n}"
        got = outcomes.setdefault(key, [])
        request = PutKvConfig(namespace="n", key="k", value=key)
        caller.begin(address, request, b"x" * world.rng.randrange(3000), got.append, timeout_ms=1500)
        await asyncio.sleep(world.rng.expovariate(50))


async def faults(world: World, node: Node) -> None:
    for _ in range(12):
        await asyncio.sleep(world.rng.expovariate(3))
        victim = f"client{world.rng.randrange(3)}"
        fault = world.rng.randrange(4)
        if fault == 0:
            world.network.partition(["server"], [victim], one_way=world.rng.random() < 0.5)
        elif fault == 1:
            world.network.reset("server", victim)
        elif fault == 2:
            world.network.heal()
        else:
            await node.crash()
            await asyncio.sleep(0.2)
            await node.restart()
    world.network.heal()


def check(key: str, got: list[Reply[Any] | FireArrowError], handled: int) -> None:
    """Hold one request's outcome to what the server did."""
    (outcome,) = got
    if isinstance(outcome, Reply):
        assert outcome.body == key.encode()
        assert handled == 1
    elif isinstance(outcome, ConnectionFailed | Overloaded):
        assert handled == 0, (key, outcome)
    else:
        assert isinstance(outcome, RequestTimedOut | ConnectionLost)
        assert handled <= 1


def chaos(seed: int) -> tuple[str, Counter[str]]:
    """Three callers, one server, random faults: every request has exactly one outcome, and it is the truth."""
    kinds: Counter[str] = Counter()

    async def scenario(world: World) -> None:
        limits = Limits(max_connection_bytes=20_000, max_in_flight_bytes=40_000, write_high_water_bytes=8192)
        site, node = Site(limits), world.node("server")
        node.start(site.program)
        address = Address(node.host, PORT)
        callers = [Caller(world.node(f"client{n}").network) for n in range(3)]
        outcomes: Outcomes = {}
        async with asyncio.TaskGroup() as group:
            for n, caller in enumerate(callers):
                group.create_task(load(world, caller, address, f"c{n}", outcomes))
            group.create_task(faults(world, node))
        await until(lambda: all(outcomes.values()))
        for key, got in outcomes.items():
            check(key, got, site.handled[key])
            kinds[type(got[0]).__name__] += 1
        for caller in callers:
            await reach(caller, address)
            await caller.close()
        await until(lambda: site.server is not None and not site.server.peers, seconds=200)
        assert site.owes_nothing()

    world = World(seed)
    world.run(scenario)
    return world.trace.digest, kinds


@pytest.mark.parametrize("seed", range(20))
def test_every_request_has_one_outcome_whatever_fails(seed: int) -> None:
    chaos(seed)


def test_faults_do_happen() -> None:
    kinds = sum((chaos(seed)[1] for seed in range(30, 40)), Counter[str]())
    assert set(kinds) == {"Reply", "RequestTimedOut", "ConnectionLost", "ConnectionFailed"}
    assert min(kinds.values()) >= 5, kinds


def test_a_run_can_be_repeated() -> None:
    assert chaos(100) == chaos(100)
