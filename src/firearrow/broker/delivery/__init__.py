"""Deliveries that the broker starts itself: delayed messages, retries, notices to members."""
