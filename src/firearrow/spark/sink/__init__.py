"""The sink: rows of a table become messages of a topic."""
