"""A name server and brokers in one process: behind ``firearrow dev`` and the testing kit."""
