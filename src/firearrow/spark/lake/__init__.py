"""Tables of a lake: Iceberg and Delta, exactly once, natively or committed from Python."""
