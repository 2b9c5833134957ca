"""The bytes of a message, shared by disk and wire.

``layout`` says where everything sits. ``encode`` makes a record of a `Draft`, ``decode`` reads one back, ``batch``
handles many messages in one body, ``properties`` and ``hosts`` are the two composite fields, ``stamp`` the checksum
over a whole record, ``compression`` the bodies, ``message_id`` the ids. Nothing here touches a file, socket or clock.
"""
