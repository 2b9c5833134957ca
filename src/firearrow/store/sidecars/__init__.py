"""Small files of our own, which Apache's broker ignores."""
