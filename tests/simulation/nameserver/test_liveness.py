"""The liveness of brokers in routes, under virtual time."""

import asyncio
from collections.abc import Awaitable, Callable

from firearrow.errors import RequestRefused
from firearrow.nameserver.config import NameServerConfig
from firearrow.protocol.requests.naming.route import GetRouteInfoByTopic
from firearrow.remoting.caller import Caller
from firearrow.testing.sim.world import World
from tests.simulation.nameserver.cluster import SimCluster
from tests.simulation.nameserver.fakes import Topics

SCAN_S = 5.0
PERIOD_S = 30.0
EXPIRY_S = 120.0
SLACK_S = 1.0


def topics() -> Topics:
    return Topics({"T": 4, "U": 8})


def simulate(scenario: Callable[[SimCluster], Awaitable[None]], seed: int = 1) -> None:
    world = World(seed)
    world.run(lambda world: scenario(SimCluster(world)))


async def two_brokers(cluster: SimCluster) -> None:
    """One name server that knows two brokers, 50 s into their lives."""
    cluster.add_name_server()
    cluster.add_broker("a", topics())
    cluster.add_broker("b", topics())
    await cluster.until(lambda: routed(cluster) == {"a", "b"}, 5.0, "both brokers are routed")
    await asyncio.sleep(50.0)


def routed(cluster: SimCluster, name_server: int = 0, topic: str = "T") -> set[str]:
    """The broker names that a name server routes a topic to."""
    server = cluster.servers.get(f"names{name_server}")
    return set() if server is None else set(cluster.shown(server, topic))


def test_a_broker_whose_connection_closes_is_gone_at_once() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await two_brokers(cluster)
        await cluster.brokers[0].node.crash()
        took = await cluster.until(lambda: routed(cluster) == {"b"}, SLACK_S, "a is gone")
        assert took < SLACK_S

    simulate(scenario)


def test_a_broker_that_hangs_is_gone_when_its_lease_is_over() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await two_brokers(cluster)
        cluster.brokers[0].node.freeze()
        took = await cluster.until(lambda: routed(cluster) == {"b"}, EXPIRY_S + SCAN_S + SLACK_S, "a is gone")
        assert took > EXPIRY_S - PERIOD_S, "its last registration was up to a period old"
        cluster.brokers[0].node.thaw()
        await cluster.until(lambda: routed(cluster) == {"a", "b"}, PERIOD_S + SLACK_S, "a is back")

    simulate(scenario)


def test_a_broker_that_hangs_is_gone_after_the_timeout_of_its_own() -> None:
    async def scenario(cluster: SimCluster) -> None:
        cluster.add_name_server()
        cluster.add_broker("a", topics(), period_s=2.0, timeout_ms=6_000)
        cluster.add_broker("b", topics())
        await cluster.until(lambda: routed(cluster) == {"a", "b"}, 5.0, "both brokers are routed")
        await asyncio.sleep(20.0)
        cluster.brokers[0].node.freeze()
        await cluster.until(lambda: routed(cluster) == {"b"}, 6.0 + SCAN_S + SLACK_S, "a is gone")

    simulate(scenario)


def test_a_broker_whose_machine_loses_power_is_gone_when_its_lease_is_over() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await two_brokers(cluster)
        await cluster.brokers[0].node.power_loss()
        took = await cluster.until(lambda: routed(cluster) == {"b"}, EXPIRY_S + SCAN_S + SLACK_S, "a is gone")
        assert took > SLACK_S, "nobody told the name server"

    simulate(scenario)


def test_a_broker_that_says_goodbye_is_gone_at_once() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await two_brokers(cluster)
        cluster.brokers[0].says_goodbye = True
        await cluster.brokers[0].node.stop()
        assert routed(cluster) == {"b"}

    simulate(scenario)


def test_a_name_server_restarted_empty_is_whole_again_within_a_period() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await two_brokers(cluster)
        node = cluster.names[0]
        await node.crash()
        await asyncio.sleep(3.0)
        await node.restart()
        await cluster.until(lambda: routed(cluster) == {"a", "b"}, PERIOD_S + SLACK_S, "both are back")

    simulate(scenario)


def test_clients_go_on_with_what_they_know_while_every_name_server_is_down() -> None:
    async def scenario(cluster: SimCluster) -> None:
        cluster.add_name_server()
        cluster.add_name_server()
        cluster.add_broker("a", topics())
        await cluster.until(lambda: routed(cluster) == routed(cluster, 1) == {"a"}, 5.0, "a is routed twice")
        client = cluster.add_client(["T"], period_s=5.0)
        await cluster.until(lambda: client.routes.get("T") is not None, 5.0, "the client has a route")
        for node in cluster.names:
            await node.crash()
        await asyncio.sleep(60.0)
        assert client.routes["T"] is not None
        await cluster.names[1].restart()
        before = cluster.seen.routes
        await cluster.until(lambda: cluster.seen.routes > before, 60.0, "the client asks the one that is back")

    simulate(scenario)


def test_name_servers_know_nothing_of_each_other() -> None:
    async def scenario(cluster: SimCluster) -> None:
        cluster.add_name_server()
        cluster.add_name_server()
        cluster.add_broker("a", topics())
        await cluster.until(lambda: routed(cluster) == routed(cluster, 1) == {"a"}, 5.0, "a is routed twice")
        cluster.world.network.partition(["a0"], ["names0"])
        gone = EXPIRY_S + SCAN_S + SLACK_S
        await cluster.until(lambda: routed(cluster) == set(), gone, "the one that is cut off forgets a")
        assert routed(cluster, 1) == {"a"}
        cluster.world.network.heal()
        await cluster.until(lambda: routed(cluster) == {"a"}, 2 * PERIOD_S, "a is back")

    simulate(scenario)


def test_a_jump_of_the_wall_clock_makes_nobody_look_dead() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await two_brokers(cluster)
        for jump_ms in (10_000_000, -20_000_000):
            cluster.names[0].clock.jump(jump_ms)
            await asyncio.sleep(3 * SCAN_S)
            assert routed(cluster) == {"a", "b"}

    simulate(scenario)


def test_a_young_name_server_refuses_routes_when_it_is_configured_so() -> None:
    async def scenario(cluster: SimCluster) -> None:
        cluster.config = NameServerConfig(need_wait_for_service=True, wait_seconds_for_service=45)
        cluster.add_name_server()
        cluster.add_broker("a", topics())
        refusals = await ask_until_answered(cluster)
        assert 35.0 < refusals < 46.0

    simulate(scenario)


async def ask_until_answered(cluster: SimCluster) -> float:
    """Ask for a route until it is given; return how long it was refused."""
    start = cluster.world.loop.time()
    caller = Caller(cluster.world.node("asker").network)
    while True:
        try:
            await caller.call(cluster.name_servers[0], GetRouteInfoByTopic(topic="T"))
        except RequestRefused as refusal:
            if refusal.remark != "name server not ready":
                raise
            await asyncio.sleep(1.0)
        else:
            await caller.close()
            return cluster.world.loop.time() - start
