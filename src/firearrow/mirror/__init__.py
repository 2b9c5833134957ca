"""The mirror: topics of one cluster copied to another, and offsets of groups with them."""
