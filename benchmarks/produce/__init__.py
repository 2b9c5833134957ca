"""Lines from a pipe and from a file into topics, by `firearrow produce` and by `kcat` into Kafka."""
