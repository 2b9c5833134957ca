"""One loader of settings: defaults < file (TOML or Java properties) < environment < flags.

A setting is a field of a small frozen ``msgspec.Struct`` that lives beside its owner, with bounds and help in its
annotation; structs are composed upward. Every leaf has two names, Python's (``listen_port``) and Apache's
(``listenPort``), and both are accepted everywhere. Nothing here touches a file or the environment: texts and mappings
arrive as arguments.
"""

from firearrow.settings.load import LoadResult, Source, load
from firearrow.settings.properties import format_properties, parse_properties
from firearrow.settings.reference import reference_table

__all__ = ["LoadResult", "Source", "format_properties", "load", "parse_properties", "reference_table"]
