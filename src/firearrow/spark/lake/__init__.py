"""Tables in a lake: Iceberg and Delta committed from Python where Spark has no runtime of theirs, or natively."""
