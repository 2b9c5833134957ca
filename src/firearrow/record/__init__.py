"""The bytes of a message, shared by disk and wire."""
