"""Reading an open store: a queue from an offset, single messages by id, key and time."""
