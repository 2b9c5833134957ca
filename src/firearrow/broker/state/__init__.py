"""State files: a table on disk as Apache's JSON file and our journal of the changes since."""
