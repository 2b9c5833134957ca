"""Timers handed over between Apache's broker and ours, and bursts of them."""
