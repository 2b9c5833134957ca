"""A broker at size beside a small one in the same run."""
