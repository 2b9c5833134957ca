"""The parts of a release: its components, known faults of them, and that two builds are equal."""
