"""Decisions about a send: admission, the stored record, the answer."""
