"""Recovery: from files of unknown state to a log with a known end, and the scrub for rot."""
