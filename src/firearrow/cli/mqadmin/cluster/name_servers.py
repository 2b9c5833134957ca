"""``wipeWritePerm``, ``addWritePerm``, ``updateKvConfig``, ``deleteKvConfig``, settings of name servers."""

from collections.abc import Awaitable, Callable
from typing import Final

from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.verb import OptionValues, Verb, VerbOption
from firearrow.errors import FireArrowError


async def wipe_write_perm(session: Session, given: OptionValues) -> None:
    """Take the write permission from a broker, at every name server."""
    await _change_perm(session, given, "wipe", session.admin.operations.wipe_write_at)


async def add_write_perm(session: Session, given: OptionValues) -> None:
    """Give a broker its write permission back, at every name server."""
    await _change_perm(session, given, "add", session.admin.operations.restore_write_at)


async def _change_perm(
    session: Session, given: OptionValues, verb: str, change: Callable[[str, str], Awaitable[int]]
) -> None:
    name = given.text("b")
    for address in session.name_server_list:
        told = f"{verb} write perm of broker[%s] in name server[%s]"
        try:
            session.line(f"{told} OK, %d", name, address, await change(address, name))
        except FireArrowError as error:
            session.line(f"{told} Failed", name, address)
            session.failed(error)


async def update_kv_config(session: Session, given: OptionValues) -> None:
    """Set a text at every name server."""
    await session.cluster_admin.name_servers.put_text(given.text("s"), given.text("k"), given.text("v"))
    session.line("create or update kv config to namespace success.")


async def delete_kv_config(session: Session, given: OptionValues) -> None:
    """Remove a text at every name server."""
    await session.cluster_admin.name_servers.delete_text(given.text("s"), given.text("k"))
    session.line("delete kv config from namespace success.")


async def get_namesrv_config(session: Session, _given: OptionValues) -> None:
    """Print the settings of every name server."""
    for address in session.name_server_list:
        found = await session.admin.name_servers.settings(address)
        session.line("============%s============", address)
        for name, value in sorted(found.items()):
            session.line("%-50s=  %s", name, value)


async def update_namesrv_config(session: Session, given: OptionValues) -> None:
    """Change a setting of every name server."""
    key, value = given.text("k"), given.text("v")
    for address in session.name_server_list:
        await session.admin.name_servers.put_settings(address, {key: value})
    servers: object = session.name_server_list if given.has("n") else ""
    session.line("update name server config success!%s\n%s : %s", servers, key, value)


BROKER: Final = VerbOption("b", "brokerName", "broker name", required=True)
NAMESPACE: Final = VerbOption("s", "namespace", "set the namespace", required=True)
KEY: Final = VerbOption("k", "key", "set the key name", required=True)
VERBS: Final = (
    Verb("updateKvConfig", "Create or update KV config.",
         (NAMESPACE, KEY, VerbOption("v", "value", "set the key value", required=True)), update_kv_config),
    Verb("deleteKvConfig", "Delete KV config.", (NAMESPACE, KEY), delete_kv_config),
    Verb("wipeWritePerm", "Wipe write perm of broker in all name server you defined in the -n param.", (BROKER,),
         wipe_write_perm),
    Verb("addWritePerm", "Add write perm of broker in all name server you defined in the -n param.", (BROKER,),
         add_write_perm),
    Verb("getNamesrvConfig", "Get configs of name server.", (), get_namesrv_config),
    Verb("updateNamesrvConfig", "Update configs of name server.",
         (VerbOption("k", "key", "config key", required=True), VerbOption("v", "value", "config value", required=True)),
         update_namesrv_config),
)  # fmt: skip
