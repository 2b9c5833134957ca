"""TLS over any transport, real or simulated: bytes in, bytes out, no sockets.

A ``TlsLayer`` sits between a transport and an ordinary protocol. To the transport it is a protocol; to the
protocol it offers a transport of its own once the handshake is done. Rules it keeps:

* the inner protocol hears ``connection_made`` after the handshake, never before; if the handshake fails it
  hears nothing, and ``on_failure`` is called instead, once; ``on_step`` hears the seconds of every step of it;
* back-pressure passes through both ways: the outer transport's buffer is the only one;
* ``close`` sends close_notify, flushes, and reads on, discarding, until the peer has said the same: a socket
  closed over unread bytes (session tickets, say) would reset the connection and take what we sent last with
  it;
* a peer that ends the connection without close_notify has cut the
  stream: the inner protocol gets an error, never ``eof_received``;
* after the peer's close_notify the inner protocol may go on writing if it says so in ``eof_received``.

How a listening port tells TLS from plaintext is the business of ``remoting.greeting``.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, cast

from firearrow.errors import ConnectionFailed
from firearrow.runtime.network import Address, Network, ProtocolFactory
from firearrow.runtime.turn import Share, soon

TLS_HANDSHAKE: Final = 0x16
"""The first byte of a connection that begins with a TLS handshake."""
HANDSHAKE_TIMEOUT_S: Final = 10.0
GOODBYE_TIMEOUT_S: Final = 5.0
READ_BYTES: Final = 256 * 1024


class TlsLayer(asyncio.Protocol):
    """Speaks TLS to a transport on behalf of a protocol."""

    _outer: asyncio.Transport
    _tls: ssl.SSLObject

    def __init__(
        self,
        context: ssl.SSLContext,
        inner: asyncio.Protocol,
        *,
        server_side: bool,
        server_hostname: str | None = None,
        on_ready: Callable[[asyncio.Transport], None] | None = None,
        on_failure: Callable[[Exception], None] | None = None,
        on_step: Callable[[float], None] | None = None,
        handshake_timeout_s: float = HANDSHAKE_TIMEOUT_S,
    ) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side, server_hostname)
        self.inner = inner
        self._on_ready = on_ready
        self._on_failure = on_failure
        self._on_step = on_step
        self._timeout_s = handshake_timeout_s
        self._deadline: asyncio.TimerHandle | None = None
        self._established = False
        self._finished = False  # the peer's close_notify came
        self._notified = False  # ours went out
        self._leaving = False  # closed by us, waiting for the peer's close_notify
        self._reading = True
        self._error: Exception | None = None

    # -- as the outer transport's protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._outer = cast("asyncio.Transport", transport)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._timeout_s, self._too_late)
        self._handshake()

    def data_received(self, data: bytes) -> None:
        """Go on with the handshake, or decrypt."""
        self._incoming.write(data)
        if not self._established:
            self._handshake()
        if self._leaving:
            self._discard()
        elif self._established:
            self._read()

    def eof_received(self) -> bool:
        """The connection ended; without close_notify the stream was cut."""
        self._incoming.write_eof()
        if self._established and not self._leaving:
            self._read()
        if not self._finished and not self._leaving and self._error is None:
            self._error = ConnectionResetError("the TLS stream was cut: it ended without close_notify")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end to the inner protocol, or to the caller that waits for the handshake."""
        self._stop_timer()
        error = self._error or exc
        if self._established:
            self.inner.connection_lost(error)
        else:
            self._failed(error or ConnectionResetError("the connection ended during the TLS handshake"))

    def pause_writing(self) -> None:
        """Pass backpressure on."""
        if self._established:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass the end of backpressure on."""
        if self._established:
            self.inner.resume_writing()

    # -- handshake

    def _handshake(self) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            self._step()
        finally:
            if self._on_step is not None:
                self._on_step(clock() - began)

    def _step(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except (ssl.SSLError, ssl.CertificateError) as error:
            self._error = error
            self._flush()  # the alert that says why
            self._failed(error)
            self._outer.close()
            return
        self._flush()
        self._stop_timer()
        self._established = True
        transport = TlsTransport(self)
        self.inner.connection_made(transport)
        if self._on_ready is not None:
            self._on_ready(transport)

    def _too_late(self) -> None:
        self._error = TimeoutError(f"no TLS handshake within {self._timeout_s:g} s")
        self._failed(self._error)
        self._outer.abort()

    def _failed(self, error: Exception) -> None:
        self._stop_timer()
        if self._on_failure is not None:
            on_failure, self._on_failure = self._on_failure, None
            on_failure(error)

    def _stop_timer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # -- established

    def _read(self) -> None:
        while self._reading and not (self._finished or self._leaving) and self._error is None:
            data = self._decrypt()
            if data:
                self.inner.data_received(data)
            if self._finished:
                self._end_of_stream()
            elif len(data) < READ_BYTES:
                return

    def _decrypt(self) -> bytes:
        """Return what can be decrypted now, many records at once."""
        pieces: list[bytes] = []
        size = 0
        try:
            while size < READ_BYTES:
                piece = self._tls.read(READ_BYTES)
                if not piece:
                    self._finished = True
                    break
                pieces.append(piece)
                size += len(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._finished = True
        except ssl.SSLError as error:
            if not isinstance(error, ssl.SSLEOFError):
                self._error = error
                self._flush()
                self._outer.close()
        return b"".join(pieces)

    def _end_of_stream(self) -> None:
        keep_open = self.inner.eof_received()
        if not keep_open:
            self.close()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send."""
        if self._notified or self.closing or not data:
            return
        self._tls.write(data)
        self._flush()

    def notify(self) -> None:
        """Send close_notify."""
        if self._notified or not self._established:
            return
        self._notified = True
        with suppress(ssl.SSLError):  # it wants the peer's close_notify too; ours is on its way all the same
            self._tls.unwrap()
        self._flush()

    def close(self) -> None:
        """End the connection after written data is sent and the peer has sent close_notify."""
        if self.closing:
            return
        self.notify()
        self._leaving = True
        if self._finished:
            self._outer.close()
            return
        self._deadline = asyncio.get_running_loop().call_later(GOODBYE_TIMEOUT_S, self._no_goodbye)
        if not self._reading:
            self._outer.resume_reading()
        self._discard()

    def _discard(self) -> None:
        while self._decrypt():
            pass
        if self._finished or self._error is not None:
            self._error = None  # further data of the peer is ignored
            self._outer.close()

    def _no_goodbye(self) -> None:
        self._deadline = None
        if self._outer.get_write_buffer_size():  # written data is still being sent, as slowly as the peer reads
            self._deadline = asyncio.get_running_loop().call_later(GOODBYE_TIMEOUT_S, self._no_goodbye)
        else:
            self._outer.close()

    def abort(self) -> None:
        """End the connection now."""
        self._outer.abort()

    def pause_reading(self) -> None:
        """Pass no data on until resumed."""
        if not self.closing:
            self._reading = False
            self._outer.pause_reading()

    def resume_reading(self) -> None:
        """Pass data on again, beginning with data decrypted meanwhile."""
        if not self._reading:
            self._reading = True
            soon(Share.CONNECTION, self._resume)

    def _resume(self) -> None:
        if self._reading and not self.closing:
            self._read()
        if self._reading and not self.closing:
            self._outer.resume_reading()

    @property
    def reading(self) -> bool:
        """Whether data is passed on."""
        return self._reading and not self.closing

    @property
    def closing(self) -> bool:
        """Whether the connection is ending or has ended."""
        return self._leaving or self._outer.is_closing()

    @property
    def outer(self) -> asyncio.Transport:
        """The transport underneath."""
        return self._outer

    @property
    def session(self) -> ssl.SSLObject:
        """The TLS session, for its cipher and certificates."""
        return self._tls

    def _flush(self) -> None:
        if self._outgoing.pending and not self._outer.is_closing():
            self._outer.write(self._outgoing.read())


class TlsTransport(asyncio.Transport):
    """The transport that the inner protocol sees."""

    def __init__(self, layer: TlsLayer) -> None:
        super().__init__()
        self._layer = layer

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        self._layer.write(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send several pieces as few records."""
        self._layer.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        """End this direction with close_notify; the other goes on."""
        self._layer.notify()

    def can_write_eof(self) -> bool:
        """TLS streams can be half-closed."""
        return True

    def close(self) -> None:
        """Flush, send close_notify, end."""
        self._layer.close()

    def abort(self) -> None:
        """End now."""
        self._layer.abort()

    def is_closing(self) -> bool:
        """Whether it is closing or closed."""
        return self._layer.closing

    def pause_reading(self) -> None:
        """Pass no data on until resumed."""
        self._layer.pause_reading()

    def resume_reading(self) -> None:
        """Pass data on again."""
        self._layer.resume_reading()

    def is_reading(self) -> bool:
        """Whether data is passed on."""
        return self._layer.reading

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Pass data to another protocol from now on."""
        self._layer.inner = cast("asyncio.Protocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol in charge."""
        return self._layer.inner

    def get_write_buffer_size(self) -> int:
        """Return the encrypted bytes not sent yet."""
        return self._layer.outer.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the marks of back-pressure, low and high."""
        return self._layer.outer.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the marks of back-pressure."""
        self._layer.outer.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - asyncio's own signature
        """Return what is known of the session or of the transport underneath."""
        session = self._layer.session
        if name == "ssl_object":
            return session
        if name == "peercert":
            return session.getpeercert()
        if name == "cipher":
            return session.cipher()
        return self._layer.outer.get_extra_info(name, default)


async def connect_tls(
    network: Network,
    factory: ProtocolFactory,
    address: Address,
    context: ssl.SSLContext,
    *,
    handshake_timeout_s: float = HANDSHAKE_TIMEOUT_S,
) -> asyncio.Transport:
    """Open a connection and finish the handshake; raise ``ConnectionFailed`` with the reason otherwise."""
    ready: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()

    def fail(error: Exception) -> None:
        if not ready.done():
            ready.set_exception(error)

    layer = TlsLayer(
        context,
        factory(),
        server_side=False,
        server_hostname=address.host,
        on_ready=lambda transport: None if ready.done() else ready.set_result(transport),
        on_failure=fail,
        handshake_timeout_s=handshake_timeout_s,
    )
    outer = await network.connect(lambda: layer, address)
    try:
        return await ready
    except (OSError, ssl.SSLError) as error:
        outer.abort()
        raise ConnectionFailed(f"cannot connect to {address}: TLS: {_explained(error)}") from error
    except BaseException:
        outer.abort()
        raise


_CLOCKS: Final = frozenset({9, 10})
"""OpenSSL's verify codes of a certificate that is not valid yet, and of one that has expired."""
_NAMES: Final = frozenset({62, 64})
"""OpenSSL's verify codes of a certificate for another host name or address."""


def _explained(error: Exception) -> str:
    """Return why a handshake failed, and what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = f"the certificate is refused: {error.verify_message}"
        if error.verify_code in _CLOCKS:
            return f"{reason}; check the clock of this machine and the dates of the certificate"
        if error.verify_code in _NAMES:
            return f"{reason}; connect by a name that the certificate has"
        return f"{reason}; trust its authority (trust_path, --trust FILE), or check who answers there"
    if isinstance(error, ssl.SSLError) and error.reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}:
        return "the server speaks no TLS; connect without it (tls, --tls), or check the port"
    return f"{error}; check that the server speaks TLS on this port"
