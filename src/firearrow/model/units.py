"""Numbers that must not mix.

A physical offset is a byte position in a broker's whole commit log; a queue offset counts messages of one queue;
a time is milliseconds since 1970 in UTC. All three are plain ints at run time.
"""

from typing import NewType

PhysicalOffset = NewType("PhysicalOffset", int)
QueueOffset = NewType("QueueOffset", int)
EpochMs = NewType("EpochMs", int)
