"""The simulator: a whole cluster in one thread, under virtual time, from one seed."""
