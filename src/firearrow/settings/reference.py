"""The reference page of a configuration struct, as a Markdown table made from its annotations."""

import msgspec

from firearrow.settings.schema import Leaf, leaves


def reference_table(kind: type[msgspec.Struct]) -> str:
    """Return one row per setting: both names, default, bounds, help."""
    head = "| setting | Apache's name | default | allowed | what it does |\n|---|---|---|---|---|\n"
    return head + "".join(_row(leaf) for leaf in leaves(kind))


def _row(leaf: Leaf) -> str:
    apache = f"`{leaf.apache_name}`" if leaf.apache_name != leaf.name else "the same"
    default = "empty" if leaf.default in ("", None) else f"`{leaf.default}`"
    return f"| `{leaf.name}` | {apache} | {default} | {leaf.bounds or 'any'} | {leaf.help} |\n"
