"""The name server: knows who is where."""
