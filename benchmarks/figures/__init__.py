"""The figures that RocketMQ's documents claim, measured on our broker with a command each."""
