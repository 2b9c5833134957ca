"""What people do wrong, done for real: the first line that each of them sees, and how soon."""
