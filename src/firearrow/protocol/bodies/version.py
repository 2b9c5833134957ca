"""DataVersion: the edition of a table that brokers, slaves and name servers compare.

Java: ``remoting.protocol.DataVersion``. Two editions are the same when all three numbers are.
"""

from firearrow.protocol.bodies.body import Body, always
from firearrow.protocol.conversation import Int64


class DataVersion(Body, frozen=True, kw_only=True, gc=False):
    """The edition of a table. 4.9 has no ``state_version``."""

    counter: Int64 = always(0)
    state_version: Int64 = always(0)
    timestamp: Int64 = always(0)
