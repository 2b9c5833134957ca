"""Decisions about a pull: whether it is served, which messages it gets, how long it waits."""
