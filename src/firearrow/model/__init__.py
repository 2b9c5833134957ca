"""Frozen nouns: what things are, without any bytes or effects."""
