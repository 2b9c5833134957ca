"""Stores that Apache's broker and ours read and write in turn; sizes come from the environment."""
