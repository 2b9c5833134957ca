"""Slaves, masters and controllers."""
