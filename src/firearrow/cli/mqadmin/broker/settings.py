"""``brokerStatus``, ``getBrokerConfig``, ``updateBrokerConfig``."""

from typing import Final

from firearrow.cli.mqadmin.session import NO_MASTER, Session, runtime
from firearrow.cli.mqadmin.verb import Given, Option, Verb, usage_needed
from firearrow.errors import FireArrowError
from firearrow.protocol.bodies.admin.properties import PropertiesText
from firearrow.protocol.requests.admin.config import GetBrokerConfig, UpdateBrokerConfig


async def broker_status(session: Session, given: Given) -> None:
    """Print everything that brokers say of their run."""
    if given.has("b"):
        for name, value in sorted((await runtime(session, given.text("b"))).items()):
            session.line("%-32s: %s", name, value)
        return
    for address in (await session.cluster()).members(given.text("c")):
        try:
            for name, value in sorted((await runtime(session, address)).items()):
                session.line("%-24s %-32s: %s", address, name, value)
        except FireArrowError as error:
            session.failed(error)


async def settings_of(session: Session, address: str) -> dict[str, str]:
    """Return the settings of a broker."""
    return PropertiesText.decode((await session.ask(address, GetBrokerConfig())).body).values


async def get_broker_config(session: Session, given: Given) -> None:
    """Print the settings of one broker, or of all members of a cluster."""
    if given.has("b"):
        await _print_settings(session, f"============{given.text('b')}============", given.text("b"))
        return
    for master, slaves in (await session.cluster()).ranks(given.text("c")).items() if given.has("c") else ():
        await _print_settings(session, f"============Master: {master}============", master)
        for slave in slaves:
            await _print_settings(session, f"============My Master: {master}=====Slave: {slave}============", slave)


async def _print_settings(session: Session, head: str, address: str) -> None:
    session.line("%s", head)
    if address == NO_MASTER:
        return
    for name, value in sorted((await settings_of(session, address)).items()):
        session.line("%-50s=  %s", name, value)
    session.line("")


async def update_broker_config(session: Session, given: Given) -> None:
    """Change a setting of one broker, or of the masters of a cluster, with -a of its slaves, too."""
    body = PropertiesText({given.text("k"): given.text("v")}).encode()
    if given.has("b"):
        await session.ask(given.text("b"), UpdateBrokerConfig(), body)
        session.line("update broker config success, %s", given.text("b"))
        return
    if not given.has("c"):
        usage_needed()
    cluster = await session.cluster()
    for address in cluster.members(given.text("c")) if given.has("a") else cluster.masters(given.text("c")):
        try:
            await session.ask(address, UpdateBrokerConfig(), body)
            session.line("update broker config success, %s", address)
        except FireArrowError as error:
            session.failed(error)


VERBS: Final = (
    Verb("updateBrokerConfig", "Update broker's config.",
         (Option("b", "brokerAddr", "update which broker"),
          Option("c", "clusterName", "update which cluster"),
          Option("a", "updateAllBroker", "update all brokers include slave"),
          Option("k", "key", "config key", required=True),
          Option("v", "value", "config value", required=True)),
         update_broker_config),
    Verb("brokerStatus", "Fetch broker runtime status data.",
         (Option("b", "brokerAddr", "Broker address"), Option("c", "clusterName", "which cluster")),
         broker_status, either=(("b", "c"),)),
    Verb("getBrokerConfig", "Get broker config by cluster or special broker.",
         (Option("b", "brokerAddr", "get which broker"), Option("c", "clusterName", "get which cluster")),
         get_broker_config),
)  # fmt: skip
