"""A broker: takes messages, stores them, hands them out. `broker` is the wiring; the other modules decide."""
