"""Filters by expression: SQL92 over the properties of a message.

Pure: a text becomes a `program.Program`, which decides about messages.
"""
