"""CEL filters: the Common Expression Language over properties and JSON bodies.

Pure: a text becomes a `program.CelProgram`, which judges messages within a budget.
"""
