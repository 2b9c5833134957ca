"""The commit log: its segments, its end, and how its end becomes durable."""
