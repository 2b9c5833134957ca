"""Name servers found over HTTP: a changed list takes effect without a restart."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from firearrow.client import Consumer, Message, Producer
from firearrow.errors import FireArrowError
from judges import FireArrowBroker, FireArrowNameServer, fresh
from tests.interop.client.ours import Collector, until

pytestmark = pytest.mark.real


class Lists(ThreadingHTTPServer):
    """Serves a text that changes."""

    text = ""
    asked = 0


class Telling(BaseHTTPRequestHandler):
    server: Lists
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked += 1
        body = self.server.text.encode()
        self.send_response(200 if body else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@contextmanager
def lists() -> Iterator[Lists]:
    with Lists(("127.0.0.1", 0), Telling) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_a_changed_list_takes_effect_without_a_restart() -> None:
    with (
        lists() as http,
        FireArrowNameServer() as first,
        FireArrowNameServer() as second,
        FireArrowBroker(name_servers=[first.address, second.address]) as broker,
    ):
        before, after = broker.create_topic(fresh("before")), broker.create_topic(fresh("after"))
        url = f"http://127.0.0.1:{http.server_port}/rocketmq/nsaddr"

        async def story() -> None:
            collector = Collector()
            async with (
                Producer(url, group=fresh("P"), fetch_name_server_ms=100) as producer,
                Consumer(url, group=fresh("G"), topics=[before, after], start="first", fetch_name_server_ms=100) as c,
            ):
                running = asyncio.create_task(c.run(collector))
                with pytest.raises(FireArrowError, match="503"):
                    await producer.send(Message.of(before, b"nobody knows a name server"))
                http.text = f"{first.address};\n"
                await until(lambda: bool(c.assignment), "queues")
                assert (await producer.send(Message.of(before, b"x"))).is_ok
                http.text = second.address
                asked = http.asked
                await until(lambda: http.asked > asked + 2, "both having heard of the change")
                await asyncio.to_thread(first.kill)
                assert (await producer.send(Message.of(after, b"y"))).is_ok
                http.text = ""
                await until(lambda: collector.accepted == 2, "both messages")
                assert (await producer.send(Message.of(after, b"a lookup that fails changes nothing"))).is_ok
                await until(lambda: collector.accepted == 3, "the last message")
                c.stop()
                await running

        asyncio.run(story())
