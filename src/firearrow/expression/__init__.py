"""Filters by expression: SQL92 over the properties of a message, CEL over its body too.

Pure: a text becomes a `program.CelProgram`, which decides about messages.
"""
