"""All the cables of the cluster, and the faults they suffer.

Each node has an IPv4 address of its own; servers may be reached by it or by the node's name, and
``localhost`` is the node itself. What can go wrong, and how it looks from a node:

* ``partition(a, b)`` or one way only: bytes wait, nothing is lost; ``heal`` lets them go on. A connection
  attempt into a partition is retried as TCP retries it and fails after the connect timeout.
* ``reset(a, b)``: every connection between the two breaks at both ends.
* a dead process refuses connections; a machine without power does not answer at all.
* ``throttle(node, bytes_per_s)``: a node that takes its bytes slowly.

The bytes themselves are ``transport``'s and ``endpoint``'s business.
"""

import asyncio
import random
from collections.abc import Iterable
from typing import Final

from firearrow.errors import ConnectionFailed, ListenFailed
from firearrow.runtime.network import Address, Listener, ProtocolFactory
from firearrow.testing.sim.endpoint import SimConnection, SimEndpoint
from firearrow.testing.sim.loop import SimLoop
from firearrow.testing.sim.process import Process
from firearrow.testing.sim.trace import Trace
from firearrow.testing.sim.transport import OUTSIDE, LinkProfile

_FIRST_EPHEMERAL_PORT: Final = 32768
_SYN_RETRY_S: Final = 1.0
_OWN_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_ANY_HOSTS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104


class SimListener:
    """A listening endpoint of one process."""

    def __init__(self, network: "SimNetwork", process: Process, factory: ProtocolFactory, address: Address) -> None:
        self._network = network
        self.process = process
        self.factory = factory
        self._address = address

    @property
    def address(self) -> Address:
        """The address on which it listens."""
        return self._address

    def close(self) -> None:
        """Stop accepting."""
        self._network.deafen(self)

    async def wait_closed(self) -> None:
        """Return once no client can connect any more."""
        self.close()


class NodeNetwork:
    """The network as one process sees it."""

    def __init__(self, network: "SimNetwork", process: Process) -> None:
        self._network = network
        self._process = process

    async def connect(self, factory: ProtocolFactory, address: Address) -> asyncio.Transport:
        """Open a connection; raise ``ConnectionFailed`` if that fails or takes too long."""
        return await self._network.connect(self._process, factory, address)

    async def listen(self, factory: ProtocolFactory, address: Address) -> Listener:
        """Accept connections; raise ``ListenFailed`` when the port is taken."""
        await asyncio.sleep(0)
        return self._network.listen(self._process, factory, address)


class SimNetwork:
    """Every cable, every listener, every partition."""

    def __init__(self, loop: SimLoop, rng: random.Random, trace: Trace, profile: LinkProfile) -> None:
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.profile = profile
        self._hosts: dict[str, str] = {}  # name -> address
        self._names: dict[str, str] = {}  # address or name -> name
        self._listeners: dict[tuple[str, int], SimListener] = {}
        self._connections: dict[SimConnection, None] = {}
        self._connection_count = 0
        self._ports: dict[str, int] = {}
        self._cut: dict[tuple[str, str], None] = {}
        self._off: dict[str, None] = {}
        self._throttles: dict[str, float] = {}

    def attach(self, node: str) -> str:
        """Give a node its address."""
        number = len(self._hosts) + 1
        host = f"10.0.{number // 250}.{number % 250}"
        self._hosts[node] = host
        self._names[node] = self._names[host] = node
        self._ports[node] = _FIRST_EPHEMERAL_PORT
        return host

    # -- faults

    def partition(self, left: Iterable[str], right: Iterable[str], *, one_way: bool = False) -> None:
        """Cut the cables from the nodes of ``left`` to those of ``right``, back too unless ``one_way``."""
        right = list(right)
        for a in left:
            for b in right:
                self._cut[a, b] = None
                if not one_way:
                    self._cut[b, a] = None
                self.trace.add("cut", f"{a}{'>' if one_way else '|'}{b}")

    def isolate(self, node: str) -> None:
        """Cut a node off from all the others."""
        self.partition([node], [other for other in self._hosts if other != node])

    def heal(self, left: Iterable[str] | None = None, right: Iterable[str] | None = None) -> None:
        """Mend every cut, or only those between two groups, in both directions."""
        if left is None or right is None:
            self._cut.clear()
        else:
            right = list(right)
            for a in left:
                for b in right:
                    self._cut.pop((a, b), None)
                    self._cut.pop((b, a), None)
        self.trace.add("heal", "")
        self._go_on()

    def reset(self, left: str, right: str) -> int:
        """Break every connection between two nodes at both ends; return how many there were."""
        broken = [c for c in self._connections if {c.near.node, c.far.node} == {left, right}]
        for connection in broken:
            for end in connection.ends:
                reason = ConnectionResetError(104, "connection reset")
                self.loop.call_soon(end.broken, reason, context=OUTSIDE)
        return len(broken)

    def throttle(self, node: str, bytes_per_s: float | None) -> None:
        """Let a node receive no faster than this; None takes the limit away."""
        if bytes_per_s is None:
            self._throttles.pop(node, None)
        else:
            self._throttles[node] = 1.0 / bytes_per_s

    # -- what endpoints ask

    def reachable(self, source: str, target: str) -> bool:
        """Whether packets get from one node to the other."""
        if self._off and (source in self._off or target in self._off):
            return False
        return not self._cut or (source, target) not in self._cut

    def throttle_of(self, node: str) -> float:
        """Return the seconds a byte takes at the receiving node."""
        return self._throttles.get(node, 0.0) if self._throttles else 0.0

    def forget(self, connection: SimConnection) -> None:
        """Drop a connection of which both ends are gone."""
        self._connections.pop(connection, None)

    @property
    def connection_count(self) -> int:
        """Connections of which at least one end stands."""
        return len(self._connections)

    # -- life and death

    def unplug(self, process: Process, *, power: bool) -> None:
        """Cut every cable of a dying process and stop its listeners; with ``power`` say no goodbye."""
        if power:
            self._off[process.name] = None
        for listener in [one for one in self._listeners.values() if one.process is process]:
            self.deafen(listener)
        for connection in list(self._connections):
            for end in connection.ends:
                if end.process is process:
                    end.killed(power=power)

    def boot(self, node: str) -> None:
        """Power is back: the machine answers again."""
        if node in self._off:
            del self._off[node]
            self._go_on()

    def deafen(self, listener: SimListener) -> None:
        """Take a listener away."""
        key = (listener.process.name, listener.address.port)
        if self._listeners.get(key) is listener:
            del self._listeners[key]

    def _go_on(self) -> None:
        for connection in list(self._connections):
            for end in connection.ends:
                end.stream.healed()

    # -- connect and listen

    def listen(self, process: Process, factory: ProtocolFactory, address: Address) -> SimListener:
        """Open a port of a process."""
        port = address.port or self._ephemeral(process.name)
        key = (process.name, port)
        if process.dead:
            raise ListenFailed(f"cannot listen on {address}: {process} is dead")
        if not self._is_own(process.name, address.host):
            raise ListenFailed(f"cannot listen on {address}: not an address of {process.name}")
        if key in self._listeners:
            raise ListenFailed(f"cannot listen on {address}: address already in use")
        bound = Address(address.host if address.host not in _ANY_HOSTS else self._hosts[process.name], port)
        listener = self._listeners[key] = SimListener(self, process, factory, bound)
        self.trace.add("listen", f"{process} {port}")
        return listener

    async def connect(self, process: Process, factory: ProtocolFactory, address: Address) -> asyncio.Transport:
        """Open a connection from a process."""
        target = process.name if address.host in _OWN_HOSTS else self._names.get(address.host)
        if process.dead:
            raise ConnectionFailed(f"cannot connect to {address}: {process} is dead")
        if target is None:
            raise ConnectionFailed(f"cannot connect to {address}: unknown host")
        await self._handshake(process.name, target, address)
        listener = self._listeners.get((target, address.port))
        if listener is None or not _alive(process):
            self.trace.add("refused", f"{process} {target}:{address.port}")
            raise ConnectionFailed(f"cannot connect to {address}: connection refused") from ConnectionRefusedError()
        return self._plug(process, factory, listener)

    async def _handshake(self, source: str, target: str, address: Address) -> None:
        deadline = self.loop.now + self.profile.connect_timeout_s
        retry = _SYN_RETRY_S
        while True:
            latency = self.profile.latency_min_s + self.rng.expovariate(1.0) * self.profile.latency_mean_s
            await asyncio.sleep(2 * latency)
            if self.reachable(source, target) and self.reachable(target, source):
                return
            await asyncio.sleep(max(0.0, min(retry, deadline - self.loop.now)))
            if self.loop.now >= deadline:
                self.trace.add("unanswered", f"{source} {target}:{address.port}")
                waited = f"no answer within {self.profile.connect_timeout_s:g} s"
                raise ConnectionFailed(f"cannot connect to {address}: {waited}")
            retry *= 2

    def _plug(self, process: Process, factory: ProtocolFactory, listener: SimListener) -> asyncio.Transport:
        server = listener.process
        here = Address(self._hosts[process.name], self._ephemeral(process.name))
        there = Address(self._hosts[server.name], listener.address.port)
        near = SimEndpoint(self, process, factory, here, there)
        far = SimEndpoint(self, server, listener.factory, there, here)
        self._connection_count += 1
        connection = SimConnection(self._connection_count, near, far)
        self._connections[connection] = None
        self.trace.add("connect", f"{connection.number} {process}>{server}:{there.port}")
        # The listening kernel has accepted; its process learns when it next runs.
        self.loop.call_soon(far.made, context=server.context())
        near.made()
        return near

    def _ephemeral(self, node: str) -> int:
        port = self._ports[node]
        self._ports[node] = port + 1 if port < 65_535 else _FIRST_EPHEMERAL_PORT
        return port

    def _is_own(self, node: str, host: str) -> bool:
        return host in _ANY_HOSTS or host in _OWN_HOSTS or self._names.get(host) == node


def _alive(process: Process) -> bool:
    """Ask again after an await: the process may have died meanwhile."""
    return not process.dead
