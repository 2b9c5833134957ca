"""Commands about users and what they may do."""
