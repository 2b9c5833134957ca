"""Mistakes of people, made for real: the first line that each of them sees, and how soon."""
