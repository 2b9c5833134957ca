"""An operator's requests to brokers: read state and settings, change settings, take and give write permission.

Java: ``BrokerStatusSubCommand``, ``UpdateBrokerConfigSubCommand``, ``WipeWritePermSubCommand``.
"""

import difflib
from collections.abc import Iterable, Mapping

from firearrow.admin.broker_state import BrokerState, read_state
from firearrow.admin.brokers import BrokerMember, Brokers, Server, together
from firearrow.client.name_servers import UNANSWERED
from firearrow.errors import NotNow, RequestRefused, SettingsError
from firearrow.protocol.bodies.admin.properties import PropertiesText
from firearrow.protocol.bodies.admin.stats import BrokerStatsData
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.bodies.replication.replication import EpochEntryCache, HaRuntimeInfo
from firearrow.protocol.requests.admin.config import GetBrokerConfig, UpdateBrokerConfig
from firearrow.protocol.requests.admin.stats import GetBrokerRuntimeInfo, ViewBrokerStatsData
from firearrow.protocol.requests.naming.route import AddWritePermOfBroker, WipeWritePermOfBroker
from firearrow.protocol.requests.replication.replication import GetBrokerEpochCache, GetBrokerHaStatus


class BrokerOperations:
    """Operations on brokers."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def runtime(self, at: Server) -> dict[str, str]:
        """Return everything that a broker says of itself, by Apache's names."""
        return (await self._brokers.read(at, GetBrokerRuntimeInfo(), KVTable)).table

    async def statistics(self, at: Server, name: str, key: str) -> BrokerStatsData:
        """Return a statistic of a broker; one that has counted nothing refuses."""
        return await self._brokers.read(at, ViewBrokerStatsData(stats_name=name, stats_key=key), BrokerStatsData)

    async def states(self, members: Iterable[BrokerMember]) -> list[BrokerState]:
        """Return the state of brokers; of one that does not answer, why."""
        return await together(self._state(member) for member in members)

    async def _state(self, member: BrokerMember) -> BrokerState:
        try:
            return read_state(member, await self.runtime(member))
        except (RequestRefused, *UNANSWERED) as error:
            return BrokerState(member, fault=str(error))

    async def replication(self, at: Server) -> HaRuntimeInfo:
        """Return how replication goes; a broker of 4.9 refuses."""
        return await self._brokers.read(at, GetBrokerHaStatus(), HaRuntimeInfo)

    async def replication_if_told(self, at: Server) -> HaRuntimeInfo | None:
        """Return how replication goes; None from a broker that does not say (4.9)."""
        try:
            return await self.replication(at)
        except RequestRefused:
            return None

    async def epochs(self, at: Server) -> EpochEntryCache:
        """Return which master wrote which part of a broker's log."""
        return await self._brokers.read(at, GetBrokerEpochCache(), EpochEntryCache)

    async def settings(self, at: Server) -> dict[str, str]:
        """Return all settings of a broker."""
        return PropertiesText.decode((await self._brokers.ask(at, GetBrokerConfig())).body).values

    async def put_settings(self, at: Server, wanted: Mapping[str, str]) -> None:
        """Change settings of a broker, which takes names that it does not have without a word."""
        await self._brokers.ask(at, UpdateBrokerConfig(), PropertiesText(dict(wanted)).encode())

    async def change_settings(self, member: BrokerMember, wanted: Mapping[str, str]) -> dict[str, str]:
        """Change settings; return those in force afterwards. A name that the broker does not have is refused."""
        before = await self.settings(member)
        check_names(wanted, before, f"broker {member.name}")
        await self.put_settings(member, wanted)
        after = await self.settings(member)
        stayed = sorted(name for name, value in wanted.items() if after.get(name) != value)
        if stayed:
            still = ", ".join(f"{name} is {after[name]!r}" for name in stayed)
            raise NotNow(f"broker {member.name} answered, but {still} still; set it in its file and restart it")
        return {name: after[name] for name in wanted}

    async def wipe_write(self, broker_name: str) -> dict[str, int]:
        """Take the write permission from a broker's queues; return the topics that changed, by name server."""
        return await self._brokers.at_name_servers(lambda server: self.wipe_write_at(server, broker_name))

    async def wipe_write_at(self, server: Server, broker_name: str) -> int:
        """Take the write permission from a broker's queues at one name server; return the topics that changed."""
        reply = await self._brokers.ask(server, WipeWritePermOfBroker(broker_name=broker_name))
        return reply.answer.wipe_topic_count

    async def restore_write(self, broker_name: str) -> dict[str, int]:
        """Give a broker's queues write permission; return the topics that changed, by name server."""
        return await self._brokers.at_name_servers(lambda server: self.restore_write_at(server, broker_name))

    async def restore_write_at(self, server: Server, broker_name: str) -> int:
        """Give a broker's queues write permission at one name server; return the topics that changed."""
        reply = await self._brokers.ask(server, AddWritePermOfBroker(broker_name=broker_name))
        return reply.answer.add_topic_count


def check_names(wanted: Mapping[str, str], known: Mapping[str, str], whose: str) -> None:
    """Raise ``SettingsError`` for a name that a server does not have: servers take it without a word."""
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else "read the settings to see which it has"
            raise SettingsError(f"{whose} has no setting {name!r}; {hint}")
