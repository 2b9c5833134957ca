"""A catalog that speaks Iceberg's REST protocol and vends keys of the storage with each table, for one block.

pyiceberg's own SQL catalog keeps the tables; only the requests that its REST client sends for them are answered.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest

STATUS = {
    NoSuchTableError: 404, NoSuchNamespaceError: 404, CommitFailedException: 409, TableAlreadyExistsError: 409,
    NamespaceAlreadyExistsError: 409,
}  # fmt: skip


@contextmanager
def rest_catalog(directory: Path, storage: Mapping[str, str], vended: Mapping[str, str]) -> Iterator[str]:
    """The address of a catalog over a bucket: it uses ``storage`` itself, and gives ``vended`` to who loads a table."""
    kept = SqlCatalog("kept", uri=f"sqlite:///{directory}/rest.db", warehouse="s3://lake/vended", **storage)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            words = self.path.partition("?")[0].strip("/").split("/")[1:]
            try:
                with lock:
                    status, said = 200, answer(kept, self.command, words, body)
            except tuple(STATUS) as wrong:
                status = STATUS[type(wrong)]
                said = {"error": {"message": str(wrong), "type": type(wrong).__name__, "code": status}}
            if "metadata" in said:
                is_asked = self.headers.get("x-iceberg-access-delegation") == "vended-credentials"
                said["config"] = dict(vended) if is_asked else {}
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_POST = do_HEAD = _answer  # noqa: N815 - the names that http.server looks for

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(kept: SqlCatalog, method: str, words: list[str], body: bytes) -> dict[str, Any]:
    """The answer to one request."""
    match method, words:
        case _, ["config"]:
            return {"defaults": {}, "overrides": {}}
        case "POST", ["namespaces"]:
            given = json.loads(body)
            kept.create_namespace(tuple(given["namespace"]))
            return {"namespace": given["namespace"], "properties": {}}
        case _, ["namespaces", space]:
            return {"namespace": [space], "properties": kept.load_namespace_properties(space)}
        case "POST", ["namespaces", space, "tables"]:
            absent = dict.fromkeys(("location", "partition-spec", "write-order"))
            return created(kept, space, CreateTableRequest.model_validate({**absent, **json.loads(body)}))
        case "POST", ["namespaces", space, "tables", name]:
            change = CommitTableRequest.model_validate_json(body)
            which: Any = SimpleNamespace(name=lambda: (space, name))
            done = kept.commit_table(which, change.requirements, change.updates)
            return {"metadata-location": done.metadata_location, "metadata": plain(done.metadata)}
        case _, ["namespaces", space, "tables", name]:
            found = kept.load_table((space, name))
            return {"metadata-location": found.metadata_location, "metadata": plain(found.metadata)}
    raise NoSuchNamespaceError(f"{method} {'/'.join(words)} is not answered here")


def created(kept: SqlCatalog, space: str, asked: CreateTableRequest) -> dict[str, Any]:
    """A table that is made with its first commit."""
    assert asked.stage_create, "only tables that are staged first"
    shape: dict[str, Any] = {"partition_spec": asked.partition_spec, "sort_order": asked.write_order}
    given = {name: part for name, part in shape.items() if part is not None}
    staged = kept._create_staged_table(
        (space, asked.name), asked.table_schema, asked.location, **given, properties=asked.properties
    )
    return {"metadata-location": None, "metadata": plain(staged.metadata)}


def plain(metadata: Any) -> Any:
    return json.loads(metadata.model_dump_json())
