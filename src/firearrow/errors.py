"""Every public error, named for the fact it reports.

Two questions decide what a caller does next, and every error answers both as attributes:

    retryable          is another attempt worth it?
    may_have_happened  may the request have taken effect nevertheless? (a timeout means unknown)

The tree:

    FireArrowError
    ├── ProtocolError            the peer sent bytes that break the rules
    │   ├── BadFrame             a frame that cannot be split from the stream; the connection must end
    │   ├── BadHeader            a frame whose header does not parse
    │   ├── BadBody              a body that does not parse
    │   └── BadRecord            bytes that are not a message record
    ├── ConnectionFailed         no server answered at that address
    ├── ListenFailed             that address cannot be listened on
    ├── ConnectionLost           the connection ended with the answer outstanding
    ├── RequestTimedOut          no answer within the deadline
    ├── RequestRefused           the server answered with an error code
    │   ├── AccessDenied         the account is unknown, its secret is wrong, or it may not do this
    │   └── Throttled            a quota is used up; the server says how long to wait
    ├── Overloaded               a local limit is reached; nothing was sent
    ├── Unsupported              this version cannot do what was asked
    ├── IllegalMessage           a message, a name or an id breaks the rules; nothing was sent or stored
    ├── PortalClosed             the loop behind a blocking call has ended
    ├── SettingsError            a setting is unknown, malformed or out of bounds
    ├── DiskError                a disk operation failed
    │   ├── ResourceShortage     space, descriptors or memory are used up for now; nothing happened
    │   │   └── DiskFull         no space left
    │   ├── FileMissing          no such file or directory
    │   ├── SyncFailed           a sync failed: all unsynced data counts as lost
    │   ├── LockHeld             another process owns the directory
    │   └── StoreFenced          a write or sync failed before: the store takes nothing until it is opened again
    ├── CoordinatorFailed        the group's coordinator did not answer, or not as it should
    ├── StaleEpoch               a newer master rules: what came belongs to an epoch that is over
    ├── OffsetNotStored          the log or queue does not hold that offset: deleted, damaged or not written yet
    ├── NoRoute                  no name server knows a broker for that topic
    ├── SendFailed               every attempt to send a message failed; the cause is the last one's
    ├── TransactionUnconfirmed   no broker has confirmed the end of a transaction; the broker asks back
    ├── ClientClosed             a producer or consumer is used before it was opened or after it was closed
    ├── NoSuchName               no topic, group, broker or cluster has that name
    ├── AlreadyExists            the topic to be created exists already
    ├── NotNow                   the request would do harm in the present state; the message says what to change
    └── BrokenInvariant          a bug of ours: the process must end (never raised for bad input)
"""


class FireArrowError(Exception):
    """Base class: catching it catches everything this package raises on purpose."""

    retryable: bool = False
    may_have_happened: bool = False


class ProtocolError(FireArrowError):
    """The peer sent bytes that break the rules."""


class BadFrame(ProtocolError):
    """The stream cannot be split into frames any more; the connection must end."""


class BadHeader(ProtocolError):
    """A frame arrived whole, but its header does not parse."""


class BadBody(ProtocolError):
    """A body does not parse as the type of its request code."""


class BadRecord(ProtocolError):
    """Bytes are not a valid message record.

    ``offset`` is where in the given buffer the record begins, ``reason`` what is wrong with it.
    """

    def __init__(self, reason: str, *, offset: int = 0) -> None:
        self.reason = reason
        self.offset = offset
        super().__init__(f"no record at byte {offset}: {reason}")


class ConnectionFailed(FireArrowError):
    """No server answered at that address."""

    retryable = True


class ListenFailed(FireArrowError):
    """The address cannot be listened on: it is taken, or not ours."""


class ConnectionLost(FireArrowError):
    """The connection ended before the answer came; ``sent`` says whether the request was sent."""

    retryable = True
    may_have_happened = True

    def __init__(self, message: str, *, sent: bool = True) -> None:
        self.may_have_happened = sent
        super().__init__(message)


class RequestTimedOut(FireArrowError):
    """No answer came within the deadline."""

    retryable = True
    may_have_happened = True


class RequestRefused(FireArrowError):
    """The server answered with an error code.

    ``code`` is RocketMQ's response code and ``remark`` the server's own words.
    """

    def __init__(self, code: int, remark: str, *, asked: str = "", address: str = "") -> None:
        self.code = code
        self.remark = remark
        self.asked = asked
        self.address = address
        where = f" by {address}" if address else ""
        what = asked or "the request"
        super().__init__(f"{what} was refused{where} with code {code}: {remark or 'no reason given'}")


class AccessDenied(RequestRefused):
    """The server does not know the account, its signature does not fit, or it may not do what was asked.

    Nothing happened, and asking again changes nothing: check ``access_key`` and ``secret_key``, or the permissions.
    """


class Throttled(RequestRefused):
    """A quota of the server is used up. Nothing happened; ask again after ``retry_after_ms`` milliseconds."""

    retryable = True

    def __init__(self, code: int, remark: str, retry_after_ms: int, *, asked: str = "", address: str = "") -> None:
        self.retry_after_ms = retry_after_ms
        super().__init__(code, remark, asked=asked, address=address)


class Overloaded(FireArrowError):
    """A local limit is reached; nothing was sent."""

    retryable = True


class Unsupported(FireArrowError):
    """This version cannot do what was asked."""


class QueueHidden(FireArrowError):
    """A topic has lost a queue by shrinking, and the broker does not let anyone read its messages."""


class IllegalMessage(FireArrowError):
    """A message, a name or an id breaks the rules; nothing was sent or stored."""


class PortalClosed(FireArrowError):
    """The loop behind a blocking call has ended, or belongs to the process before a fork."""


class SettingsError(FireArrowError):
    """A setting is unknown, malformed or out of bounds."""


class DiskError(FireArrowError):
    """A disk operation failed. ``errno`` is the operating system's error number, if there is one."""

    def __init__(self, message: str, errno: int | None = None) -> None:
        self.errno = errno
        super().__init__(message)


class ResourceShortage(DiskError):
    """Space, open files or memory are used up for now. Nothing happened; the call works again when some are free."""

    retryable = True


class DiskFull(ResourceShortage):
    """No space is left on the disk."""


class FileMissing(DiskError):
    """There is no file or directory of that name."""


class SyncFailed(DiskError):
    """A sync failed: all unsynced data counts as lost, and nothing may be acknowledged after it."""

    may_have_happened = True


class LockHeld(DiskError):
    """Another process owns the directory."""


class StoreFenced(DiskError):
    """An earlier write or sync of the store failed, so it acknowledges nothing more until it is opened again."""

    may_have_happened = True


class CoordinatorFailed(FireArrowError):
    """The coordinator of a replicated group did not answer, or not as it should; a change may have happened."""

    retryable = True
    may_have_happened = True


class StaleEpoch(FireArrowError):
    """A newer master rules: what came belongs to an epoch that is over. Nothing was changed."""


class OffsetNotStored(FireArrowError):
    """The log or queue does not hold that offset: it was deleted, is damaged, or is not written yet."""


class NoRoute(FireArrowError):
    """No name server knows a broker that serves the topic in the way asked for; nothing was sent."""

    retryable = True


class SendFailed(FireArrowError):
    """Every attempt to send failed. ``__cause__`` is the last attempt's error.

    ``retryable`` is the last attempt's, ``may_have_happened`` is true if it is for any attempt. ``stored`` is the
    number of messages of a batch, from its first on, that brokers had acknowledged before the failure.
    """

    def __init__(self, message: str, *, retryable: bool, may_have_happened: bool, stored: int = 0) -> None:
        self.retryable = retryable
        self.may_have_happened = may_have_happened
        self.stored = stored
        super().__init__(message)


class TransactionUnconfirmed(FireArrowError):
    """The broker of a transaction has not confirmed its commit or its rollback.

    The message is not lost: the broker asks the producers of the group what became of the transaction. Do not try the
    transaction again, because its decision stands. ``may_have_happened`` is whether it may be in force already.
    """

    def __init__(self, message: str, *, may_have_happened: bool) -> None:
        self.may_have_happened = may_have_happened
        super().__init__(message)


class TransactionRefused(FireArrowError):
    """The broker of a transaction refused its commit or its rollback, for example because the transaction is over.

    A transaction is over once another producer's check function has decided, or once the broker has given it up: then
    the message lies in the topic TRANS_CHECK_MAX_TIME_TOPIC. The decision is not in force unless the broker asks again.
    """


class ClientClosed(FireArrowError):
    """A producer or consumer is used before it was opened, or after it was closed; nothing was sent."""


class NoSuchName(FireArrowError):
    """No topic, group, broker or cluster has that name; nothing was changed."""


class AlreadyExists(FireArrowError):
    """The topic to be created exists already; nothing was changed."""


class NotNow(FireArrowError):
    """The request would do harm in the present state; nothing was changed. The message says what to change."""


class PartlyDone(FireArrowError):
    """A part of the work is done and the rest is not; the message says which, and why."""

    def __init__(self, message: str, *, may_have_happened: bool = False) -> None:
        self.may_have_happened = may_have_happened
        super().__init__(message)


class BrokenInvariant(FireArrowError):
    """A bug of ours. The process must end; input from outside never leads here."""
