"""etcd as coordinator, through its JSON gateway (API v3), which every etcd from 3.4 on serves.

Keys, below ``/firearrow/CLUSTER/``::

    group/NAME        the value of a group, compared by its bytes: revisions may go back when a backup is restored
    live/NAME/ID      what a member tells about itself, with its lease
    acts/NAME/TIME    records of what operators changed by hand

A call goes to one machine of etcd; after a failure the next call goes to another one. Keys and values travel in
base64, 64-bit numbers as text.
"""

import asyncio
import json
import logging
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from firearrow.errors import CoordinatorFailed, SettingsError
from firearrow.runtime.coordinator.door import GroupSnapshot
from firearrow.runtime.tls_settings import ClientTls, client_context

if TYPE_CHECKING:
    import httpx

PREFIX: Final = "/firearrow"
CALL_TIMEOUT_S: Final = 1.0
"""Timeout of a call; etcd answers within milliseconds, and after the loss of its leader within seconds."""
SILENT_WATCH_S: Final = 60.0


class Etcd:
    """One group at etcd."""

    def __init__(
        self,
        endpoints: Sequence[str],
        cluster: str,
        name: str,
        *,
        lease_s: int,
        tls: ClientTls | None = None,
        call_s: float = CALL_TIMEOUT_S,
    ) -> None:
        """``endpoints`` are addresses such as ``http://10.0.0.1:2379``; ``tls`` is for those with https."""
        self._endpoints = list(endpoints)
        self._turn = 0
        self._group = f"{PREFIX}/{cluster}/group/{name}"
        self._live = f"{PREFIX}/{cluster}/live/{name}/"
        self._lease_s = lease_s
        self._lease = ""
        self._acts = f"{PREFIX}/{cluster}/acts/{name}/"
        self._http = _client(tls, call_s)

    async def read(self) -> GroupSnapshot:
        """Return the group's value and its live members, of one moment."""
        ranges = [{"key": _text(self._group)}, {"key": _text(self._live), "range_end": _text(_after(self._live))}]
        answer = await self._read("kv/txn", {"success": [{"request_range": one} for one in ranges]})
        try:
            group, live = (one["response_range"].get("kvs", []) for one in answer["responses"])
            members = {int(_bytes(row["key"])[len(self._live) :]): _bytes(row.get("value", "")) for row in live}
            return GroupSnapshot(_bytes(group[0].get("value", "")) if group else None, members)
        except (KeyError, ValueError, TypeError) as error:
            raise CoordinatorFailed(f"etcd answered a read in an unknown form: {error!r}") from error

    async def swap(self, expected: bytes | None, new: bytes) -> bool:
        """Replace the group's value if it is the expected one."""
        return await self._swap(expected, {self._group: new})

    async def act(self, expected: bytes | None, new: bytes, moment: str, record: bytes) -> bool:
        """Replace the group's value as `swap` does, and keep a record of the operator's act in the same transaction."""
        return await self._swap(expected, {self._group: new, f"{self._acts}{moment}": record})

    async def acts(self) -> list[bytes]:
        """Return the records of operators' acts, the oldest first."""
        answer = await self._read("kv/range", {"key": _text(self._acts), "range_end": _text(_after(self._acts))})
        return [_bytes(row.get("value", "")) for row in answer.get("kvs", [])]

    async def _swap(self, expected: bytes | None, values: Mapping[str, bytes]) -> bool:
        compare: dict[str, Any] = {"key": _text(self._group), "result": "EQUAL"}
        if expected is None:
            compare |= {"target": "CREATE", "create_revision": "0"}
        else:
            compare |= {"target": "VALUE", "value": _base64(expected)}
        puts = [{"request_put": {"key": _text(key), "value": _base64(value)}} for key, value in values.items()]
        answer = await self._call("kv/txn", {"compare": [compare], "success": puts})
        return bool(answer.get("succeeded", False))

    async def announce(self, member: int, about: bytes) -> None:
        """Take a new lease and write the member's key with it."""
        granted = await self._call("lease/grant", {"TTL": str(self._lease_s)})
        lease = str(granted["ID"])
        await self._call("kv/put", {"key": _text(f"{self._live}{member}"), "value": _base64(about), "lease": lease})
        self._lease = lease

    async def renew(self) -> bool:
        """Renew the lease."""
        if not self._lease:
            return False
        answer = await self._call("lease/keepalive", {"ID": self._lease})
        return int(answer.get("result", {}).get("TTL", 0)) > 0

    async def retire(self) -> None:
        """Revoke the lease, which deletes the member's key."""
        if self._lease:
            lease, self._lease = self._lease, ""
            await self._call("lease/revoke", {"ID": lease})

    async def changed(self) -> None:
        """Return at the next event below the group's keys, and when the connection is silent for long."""
        wanted = [self._group, self._live]
        async with asyncio.TaskGroup() as tasks:
            watches = [tasks.create_task(self._event(key)) for key in wanted]
            await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
            for watch in watches:
                watch.cancel()

    async def _event(self, key: str) -> None:
        request = {"create_request": {"key": _text(key), "range_end": _text(_after(key))}}
        async with self._failing(), self._http.stream("POST", self._url("watch"), json=request, timeout=None) as got:
            try:
                async with asyncio.timeout(SILENT_WATCH_S):
                    async for line in got.aiter_lines():
                        if json.loads(line).get("result", {}).get("events"):
                            return
            except TimeoutError:
                return

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    # ---- calls

    def _url(self, what: str) -> str:
        return f"{self._endpoints[self._turn % len(self._endpoints)]}/v3/{what}"

    async def _read(self, what: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Ask for something that changes nothing."""
        try:
            return await self._call(what, request)
        except CoordinatorFailed as error:
            error.may_have_happened = False
            raise

    async def _call(self, what: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Ask a machine, and the next one where no connection came about, so that nothing has happened there."""
        import httpx

        for _ in range(len(self._endpoints) - 1):
            try:
                return await self._asked(what, request)
            except CoordinatorFailed as error:
                if not isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout):
                    raise
        return await self._asked(what, request)

    async def _asked(self, what: str, request: Mapping[str, Any]) -> dict[str, Any]:
        url = self._url(what)
        async with self._failing():
            answer = await self._http.post(url, json=request)
            if answer.status_code != 200:
                raise CoordinatorFailed(f"etcd at {url} answered {answer.status_code}: {answer.text[:200]}")
            found = answer.json()
            if not isinstance(found, dict):
                raise CoordinatorFailed(f"etcd at {url} answered in an unknown form")
            return found
        raise AssertionError

    @asynccontextmanager
    async def _failing(self) -> AsyncIterator[None]:
        """Turn errors of the connection into ours, and go to the next machine after one."""
        import httpx

        turn = self._turn
        try:
            yield
        except (httpx.HTTPError, httpx.StreamError, ValueError, CoordinatorFailed) as error:
            if self._turn == turn:
                self._turn += 1
            if isinstance(error, CoordinatorFailed):
                raise
            where = self._endpoints[turn % len(self._endpoints)]
            said = str(error) or type(error).__name__
            raise CoordinatorFailed(f"etcd at {where} did not answer ({said}); {_advice(where)}") from error


def endpoints_of(text: str) -> list[str]:
    """Return the addresses in a setting, divided by semicolons or commas; raise ``SettingsError`` for others."""
    found = [one.strip().rstrip("/") for one in text.replace(",", ";").split(";") if one.strip()]
    for one in found:
        if not one.startswith(("http://", "https://")):
            raise SettingsError(
                f"coordinatorAddress={text!r}: write addresses of etcd as http://host:port or https://host:port"
            )
    return found


def _client(tls: ClientTls | None, call_s: float) -> "httpx.AsyncClient":
    try:
        import httpx
    except ModuleNotFoundError:
        raise SettingsError("coordinatorAddress needs httpx: pip install 'firearrow[failover]'") from None
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs a line for every call
    checks = client_context(tls) if tls is not None else True
    return httpx.AsyncClient(timeout=call_s, trust_env=False, verify=checks)


def _advice(where: str) -> str:
    """Return what to check after a call that failed; a server that misses a certificate may only hang up."""
    advice = "check that a majority of its machines runs"
    if where.startswith("https://"):
        advice += ", and the files of coordinatorTrustPath, coordinatorCertificatePath and coordinatorKeyPath"
    return advice


def _after(prefix: str) -> str:
    """Return the end of the range of keys that begin with a text."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def _text(key: str) -> str:
    return _base64(key.encode())


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return b64decode(text)
