"""What a release is made of: its components, known faults of them, and that two builds are equal."""
