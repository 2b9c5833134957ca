"""A store that speaks S3, held in memory: moto, with a guard in front of it.

    python server.py KEY...

prints the port of 127.0.0.1 that it serves to requests signed with one of the access keys; a key KEY:TOKEN needs
its session token too. Every other request gets the answer of a real store to a stranger. Signatures are not computed.
"""

import re
import sys
from typing import Any

from moto.server import (  # type: ignore[import-not-found,unused-ignore]
    DomainDispatcherApplication,
    create_backend_app,
)
from werkzeug.serving import make_server  # type: ignore[import-not-found,unused-ignore]

KEY = re.compile(r"Credential=([^/]+)/")
REFUSAL = b"<?xml version='1.0'?><Error><Code>InvalidAccessKeyId</Code><Message>%s is not known here</Message></Error>"


def main() -> None:
    """Serve until the process is ended."""
    keys = dict(word.partition(":")[::2] for word in sys.argv[1:])
    behind = DomainDispatcherApplication(create_backend_app)

    def guarded(environ: dict[str, str], start_response: Any) -> Any:  # noqa: ANN401 - as WSGI has it
        signed = KEY.search(environ.get("HTTP_AUTHORIZATION", ""))
        given = signed[1] if signed else ""
        is_known = given in keys and environ.get("HTTP_X_AMZ_SECURITY_TOKEN", "") == keys[given]
        if is_known or environ["PATH_INFO"].startswith("/moto-api"):
            return behind(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "application/xml")])
        return [REFUSAL % given.encode()]

    server = make_server("127.0.0.1", 0, guarded, threaded=True)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
