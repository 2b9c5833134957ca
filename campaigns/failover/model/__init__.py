"""An exhaustive search of elections and acknowledgements, over the very functions that brokers run."""
