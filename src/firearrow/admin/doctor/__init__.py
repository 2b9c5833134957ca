"""Finding what is wrong with a cluster."""
