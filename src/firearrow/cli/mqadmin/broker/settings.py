"""``brokerStatus``, ``getBrokerConfig``, ``updateBrokerConfig``."""

from typing import Final

from firearrow.cli.mqadmin.places import headed
from firearrow.cli.mqadmin.session import NO_MASTER, Session
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption, usage_needed
from firearrow.errors import FireArrowError


async def broker_status(session: Session, given: OptionValues) -> None:
    """Print everything that brokers say of their run."""
    if given.has("b"):
        for name, value in sorted((await session.admin.operations.runtime(given.text("b"))).items()):
            session.line("%-32s: %s", name, value)
        return
    for address in (await session.cluster()).members(given.text("c")):
        try:
            for name, value in sorted((await session.admin.operations.runtime(address)).items()):
                session.line("%-24s %-32s: %s", address, name, value)
        except FireArrowError as error:
            session.failed(error)


async def get_broker_config(session: Session, given: OptionValues) -> None:
    """Print the settings of one broker, or of all members of a cluster."""
    for head, address in await headed(session, given):
        session.line("%s", head)
        if address != NO_MASTER:
            for name, value in sorted((await session.admin.operations.settings(address)).items()):
                session.line("%-50s=  %s", name, value)
            session.line("")


async def update_broker_config(session: Session, given: OptionValues) -> None:
    """Change a setting of one broker, or of the masters of a cluster, with -a of its slaves, too."""
    put, wanted = session.admin.operations.put_settings, {given.text("k"): given.text("v")}
    if given.has("b"):
        await put(given.text("b"), wanted)
        session.line("update broker config success, %s", given.text("b"))
        return
    if not given.has("c"):
        usage_needed()
    cluster = await session.cluster()
    for address in cluster.members(given.text("c")) if given.has("a") else cluster.masters(given.text("c")):
        try:
            await put(address, wanted)
            session.line("update broker config success, %s", address)
        except FireArrowError as error:
            session.failed(error)


VERBS: Final = (
    Verb("updateBrokerConfig", "Update broker's config.",
         (VerbOption("b", "brokerAddr", "update which broker"),
          VerbOption("c", "clusterName", "update which cluster"),
          VerbOption("a", "updateAllBroker", "update all brokers include slave"),
          VerbOption("k", "key", "config key", required=True),
          VerbOption("v", "value", "config value", required=True)),
         update_broker_config),
    Verb("brokerStatus", "Fetch broker runtime status data.",
         (VerbOption("b", "brokerAddr", "Broker address"), VerbOption("c", "clusterName", "which cluster")),
         broker_status, either=(("b", "c"),)),
    Verb("getBrokerConfig", "Get broker config by cluster or special broker.",
         (VerbOption("b", "brokerAddr", "get which broker"), VerbOption("c", "clusterName", "get which cluster")),
         get_broker_config),
)  # fmt: skip
