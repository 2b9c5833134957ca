"""Receiving: `push` and `pull` are the shells, everything that decides is beside them and pure."""
