"""Topics, store files and lakes in Spark."""
