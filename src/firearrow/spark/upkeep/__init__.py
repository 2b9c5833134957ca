"""Upkeep of lake tables: compaction, deletion of rows, expiry, orphan files."""
