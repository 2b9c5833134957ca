"""FireArrow: a message platform compatible with Apache RocketMQ, with Spark as its data pipeline."""
