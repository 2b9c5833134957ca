"""The part of the protocol of Confluent's registry that readers use, over HTTP on loopback."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class RegistryServer:
    """Subjects with versions, and schemas by id."""

    def __init__(self) -> None:
        self._schemas: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.failures = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                status, answer = outer.answer(self.path, self.headers.get("Authorization", ""))
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://reader:se%40cret@{self.address}"

    def register(self, subject: str, schema: str, kind: str = "AVRO", references: Any = ()) -> int:
        """Add a version to a subject; return the schema's id."""
        number = len(self._schemas) + 1
        self._schemas[number] = {"schema": schema, "schemaType": kind, "references": list(references)}
        self._subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, path: str, authorization: str) -> tuple[int, Any]:
        """The status and body for a path."""
        if authorization != f"Basic {base64.b64encode(b'reader:se@cret').decode()}":
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.failures:
            self.failures -= 1
            return 500, {"error_code": 50001, "message": "Error in the backend data store"}
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        if parts[:2] == ["schemas", "ids"] and int(parts[2]) in self._schemas:
            return 200, self._schemas[int(parts[2])]
        if parts[0] == "subjects" and parts[1] in self._subjects:
            numbers = self._subjects[parts[1]]
            version = len(numbers) if parts[3] == "latest" else int(parts[3])
            number = numbers[version - 1]
            return 200, {"subject": parts[1], "version": version, "id": number, **self._schemas[number]}
        return 404, {"error_code": 40403, "message": "Schema not found"}

    @contextmanager
    def serving(self) -> "Iterator[RegistryServer]":
        """Serve within the block."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()
