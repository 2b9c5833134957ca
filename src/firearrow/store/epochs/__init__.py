"""What a replica keeps about masters: the history of its log, its promise, the owed cut."""
