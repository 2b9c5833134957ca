"""``wipeWritePerm``, ``addWritePerm``, ``updateKvConfig``, ``deleteKvConfig``, settings of name servers."""

from typing import Final

from firearrow.cli.mqadmin.session import Session
from firearrow.cli.mqadmin.verb import Given, Option, Verb
from firearrow.errors import FireArrowError
from firearrow.protocol.bodies.admin.properties import PropertiesText
from firearrow.protocol.requests.admin.config import GetNamesrvConfig, UpdateNamesrvConfig
from firearrow.protocol.requests.naming.kv_config import DeleteKvConfig, PutKvConfig
from firearrow.protocol.requests.naming.route import AddWritePermOfBroker, WipeWritePermOfBroker


async def wipe_write_perm(session: Session, given: Given) -> None:
    """Take the write permission from a broker, at every name server."""
    name = given.text("b")
    for address in session.name_server_list:
        try:
            reply = await session.ask(address, WipeWritePermOfBroker(broker_name=name))
            count = reply.answer.wipe_topic_count
            session.line("wipe write perm of broker[%s] in name server[%s] OK, %d", name, address, count)
        except FireArrowError as error:
            session.line("wipe write perm of broker[%s] in name server[%s] Failed", name, address)
            session.failed(error)


async def add_write_perm(session: Session, given: Given) -> None:
    """Give a broker its write permission back, at every name server."""
    name = given.text("b")
    for address in session.name_server_list:
        try:
            reply = await session.ask(address, AddWritePermOfBroker(broker_name=name))
            count = reply.answer.add_topic_count
            session.line("add write perm of broker[%s] in name server[%s] OK, %d", name, address, count)
        except FireArrowError as error:
            session.line("add write perm of broker[%s] in name server[%s] Failed", name, address)
            session.failed(error)


async def update_kv_config(session: Session, given: Given) -> None:
    """Set a text at every name server."""
    await session.tell_name_servers(PutKvConfig(namespace=given.text("s"), key=given.text("k"), value=given.text("v")))
    session.line("create or update kv config to namespace success.")


async def delete_kv_config(session: Session, given: Given) -> None:
    """Remove a text at every name server."""
    await session.tell_name_servers(DeleteKvConfig(namespace=given.text("s"), key=given.text("k")))
    session.line("delete kv config from namespace success.")


async def get_namesrv_config(session: Session, _given: Given) -> None:
    """Print the settings of every name server."""
    for address in session.name_server_list:
        found = PropertiesText.decode((await session.ask(address, GetNamesrvConfig())).body).values
        session.line("============%s============", address)
        for name, value in sorted(found.items()):
            session.line("%-50s=  %s", name, value)


async def update_namesrv_config(session: Session, given: Given) -> None:
    """Change a setting of every name server."""
    key, value = given.text("k"), given.text("v")
    for address in session.name_server_list:
        await session.ask(address, UpdateNamesrvConfig(), PropertiesText({key: value}).encode())
    servers: object = session.name_server_list if given.has("n") else ""
    session.line("update name server config success!%s\n%s : %s", servers, key, value)


BROKER: Final = Option("b", "brokerName", "broker name", required=True)
NAMESPACE: Final = Option("s", "namespace", "set the namespace", required=True)
KEY: Final = Option("k", "key", "set the key name", required=True)
VERBS: Final = (
    Verb("updateKvConfig", "Create or update KV config.",
         (NAMESPACE, KEY, Option("v", "value", "set the key value", required=True)), update_kv_config),
    Verb("deleteKvConfig", "Delete KV config.", (NAMESPACE, KEY), delete_kv_config),
    Verb("wipeWritePerm", "Wipe write perm of broker in all name server you defined in the -n param.", (BROKER,),
         wipe_write_perm),
    Verb("addWritePerm", "Add write perm of broker in all name server you defined in the -n param.", (BROKER,),
         add_write_perm),
    Verb("getNamesrvConfig", "Get configs of name server.", (), get_namesrv_config),
    Verb("updateNamesrvConfig", "Update configs of name server.",
         (Option("k", "key", "config key", required=True), Option("v", "value", "config value", required=True)),
         update_namesrv_config),
)  # fmt: skip
