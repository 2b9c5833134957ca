"""What a name server answers, by asker: clients (``lookup``), brokers (``membership``), operators (``operation``)."""
