"""What a name server answers to clients, brokers and operators."""
