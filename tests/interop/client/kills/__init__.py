"""A lone broker is killed and started again under many producers: no send fails that had the time to wait."""
