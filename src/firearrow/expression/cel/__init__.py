"""CEL filters: the Common Expression Language over properties and JSON bodies.

Pure: a text becomes a `program.Program`, which judges messages within a budget.
"""
