"""The sources: topics and store files become rows of a table."""
