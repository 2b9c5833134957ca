"""Finding what is wrong with a cluster: a snapshot is collected over the wire, then judged without asking anybody."""
