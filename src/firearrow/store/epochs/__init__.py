"""A replica's files about its masters: the history of its log, its promise, the owed cut."""
