"""Telling systemd how far a service is, by the protocol of ``sd_notify(3)``: a datagram to ``$NOTIFY_SOCKET``."""

import logging
import os
import socket
from typing import Final

SOCKET: Final = "NOTIFY_SOCKET"
"""The variable with the address that systemd listens on."""
log: Final = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Send a state such as ``READY=1``; without systemd do nothing. A failure is a line of the log."""
    address = os.environ.get(SOCKET, "")
    if not address:
        return
    name = f"\0{address[1:]}" if address.startswith("@") else address  # a name that is in no directory
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(state.encode(), name)
    except OSError as error:
        log.warning("systemd is not told %s: %s", state, error, extra={"socket": address})
