"""The side process that syncs for a broker: run as a script, with one end of a socket pair, importing nothing of
this package.

A request is ``<QB``: its number, and 1 for a directory or 0 for a file, with the descriptor attached
(SCM_RIGHTS). Both processes then hold the same open file description, so an error of write-back is reported
here exactly once and nowhere else. An answer is ``<QiQ``: the number, the error number or 0, and the
nanoseconds the sync took.

The process ends when the other end closes.
"""

import array
import os
import socket
import struct
import sys
import threading
import time

REQUEST = struct.Struct("<QB")
ANSWER = struct.Struct("<QiQ")
WORKERS = 4


def serve(channel: socket.socket) -> None:
    """Answer requests until the other end closes."""
    space = socket.CMSG_SPACE(4)
    while True:
        try:
            data, ancillary, _, _ = channel.recvmsg(REQUEST.size, space)
        except ConnectionError:  # the other process died
            return
        if not data:
            return
        number, is_directory = REQUEST.unpack(data)
        descriptors = array.array("i", ancillary[0][2])
        error, took = sync(descriptors[0], is_directory=bool(is_directory))
        os.close(descriptors[0])
        try:
            channel.send(ANSWER.pack(number, error, took))
        except ConnectionError:
            return


def sync(descriptor: int, *, is_directory: bool) -> tuple[int, int]:
    """Sync, and return the error number or 0, and the nanoseconds it took."""
    start = time.perf_counter_ns()
    error = 0
    try:
        (os.fsync if is_directory else os.fdatasync)(descriptor)
    except OSError as refused:
        error = refused.errno or 5
    return error, time.perf_counter_ns() - start


def main() -> None:
    """Serve from a few threads: each takes the next request."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    workers = [threading.Thread(target=serve, args=(channel,), daemon=True) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
