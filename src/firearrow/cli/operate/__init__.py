"""Commands that operate clusters, and what they print."""
