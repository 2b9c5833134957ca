"""The tables of a broker: topics, groups, offsets, clients, locks."""
