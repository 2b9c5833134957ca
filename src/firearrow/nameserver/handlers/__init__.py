"""The handlers of a name server for requests of clients, brokers and operators."""
