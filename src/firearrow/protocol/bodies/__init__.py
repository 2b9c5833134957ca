"""The JSON bodies that conversations carry."""
