"""A broker and a name server with access on, on simulated machines, and clients that sign or do not."""

import asyncio
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, TypeVar, get_args

import msgspec
from msgspec.structs import replace

from firearrow.access.settings import AccessConfig
from firearrow.errors import RequestRefused
from firearrow.nameserver.config import NameServerConfig
from firearrow.nameserver.server import NameServer
from firearrow.protocol.auth import Credentials, Signer
from firearrow.protocol.bodies.admin.auth import AclInfo, Policy, PolicyEntry, UserInfo
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.auth import AuthCreateAcl, AuthCreateUser
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address, Network
from firearrow.testing.sim.world import Node, World
from tests.unit.broker.whole import Client, Simulated, at, settings_of

T = TypeVar("T")

ROOT = ("root", "marker-of-root")
INNER = ("inner", "marker-of-inner")
ALICE = ("alice", "marker-of-alice")
CONFIG = AccessConfig(
    authentication_enabled=True,
    authorization_enabled=True,
    init_authentication_user=f'{{"username":"{ROOT[0]}","password":"{ROOT[1]}"}}',
    inner_client_authentication_credentials=f'{{"accessKey":"{INNER[0]}","secretKey":"{INNER[1]}"}}',
)


class OnePeer:
    """The parts of a peer that a guard uses."""

    def __init__(self, certificate_name: str = "", *, host: str = "10.9.9.9", is_forwarded: bool = False) -> None:
        self.slots: dict[object, Any] = {}
        self.address = Address(host, 5)
        self.certificate_name = certificate_name
        self.is_forwarded = is_forwarded
        self.has_proved = False
        self.refusals = 0

    def prove(self) -> None:
        self.has_proved = True

    def stay_stranger(self) -> None:
        self.refusals += 1


class Names:
    """A name server with access on."""

    def __init__(self, node: Node, access: AccessConfig) -> None:
        self.node = node
        self.access = access
        self.ready = asyncio.Event()

    async def run(self, node: Node) -> None:
        config = NameServerConfig(bind_address=node.host)
        server = NameServer(config, network=node.network, disk=node.disk, access=self.access, clock=node.clock)
        async with server.serving():
            self.ready.set()
            await asyncio.get_running_loop().create_future()

    async def start(self) -> Address:
        self.ready.clear()
        self.node.start(self.run)
        await self.ready.wait()
        return Address(self.node.host, 9876)


class Place:
    """The two servers, and clients by what they sign with."""

    def __init__(self, world: World, broker: Simulated, names: Address) -> None:
        self._world = world
        self._node = world.node("client")
        self.server = broker
        self.names = names

    def client(self, keys: tuple[str, str] | None, server: Address | None = None) -> Client:
        client = Client(self._node, server or self.server.address)
        sign = None if keys is None else Signer(Credentials(*keys))
        client.caller = Caller(self._node.network, sign=sign)
        return client

    @property
    def network_of_clients(self) -> Network:
        return self._node.network

    @property
    def address_of_clients(self) -> str:
        return self._node.host

    async def make(self, keys: tuple[str, str], *rules: tuple[str, str, str], server: Address | None = None) -> Client:
        """Make a user with rules (resource, actions, decision); return a client of it."""
        root = self.client(ROOT, server)
        await root.ask(AuthCreateUser(username=keys[0]), encode_body(UserInfo(password=keys[1])))
        for rule in rules:
            await self.allow(keys[0], *rule, server=server)
        return self.client(keys, server)

    async def allow(
        self,
        name: str,
        resource: str,
        actions: str,
        decision: str = "Allow",
        sources: list[str] | None = None,
        server: Address | None = None,
    ) -> None:
        entry = PolicyEntry(resource=resource, actions=actions.split(","), decision=decision, source_ips=sources)
        info = AclInfo(subject=f"User:{name}", policies=[Policy(policy_type="Custom", entries=[entry])])
        await self.client(ROOT, server).ask(AuthCreateAcl(subject=f"User:{name}"), encode_body(info))


def served(scenario: Callable[[Place], Coroutine[Any, Any, T]], access: AccessConfig = CONFIG) -> T:
    """Run a scenario with a broker that is registered at a name server, both with access on."""

    async def run(world: World) -> T:
        names = await Names(world.node("names"), access).start()
        broker = Simulated(world.node("broker"), replace(at(settings_of(), names), access=access))
        await broker.start()
        result = await scenario(Place(world, broker, names))
        if broker.node.running:
            await broker.node.stop()
        return result

    return World(1).run(run)


async def refusal(client: Client, request: Request[Any], body: bytes = b"") -> tuple[int, str]:
    """The code and the remark of a refusal; 0 and nothing when the request is answered."""
    try:
        await client.ask(request, body)
    except RequestRefused as refused:
        return refused.code, refused.remark
    return 0, ""


def sample(kind: type[Request[Any]]) -> Request[Any]:
    """A request of a type, with something in every field that must be there."""
    values = {field.name: _value(field.type) for field in msgspec.structs.fields(kind) if field.required}
    return kind(**values)


def _value(kind: Any) -> object:
    part = next((part for part in get_args(kind) if isinstance(part, type)), kind)
    if isinstance(part, type) and issubclass(part, Enum):
        return next(iter(part))
    return {str: "x", bool: False, float: 0.0}.get(part, 0)
