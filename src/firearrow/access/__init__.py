"""Access: who may do what at brokers and name servers, decided before any handler."""
