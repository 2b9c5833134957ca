"""The bytes of a message, shared by disk and wire.

``layout`` gives the byte layout. ``encode`` makes a record of a `Draft`, ``encode_columns`` records of message columns,
``decode`` reads records. ``batch`` splits a client's batch, ``properties`` and ``hosts`` are the two composite fields,
``stamp`` the checksum of a record, ``compression`` the bodies, ``message_id`` the ids. No files, sockets or clocks.
"""
