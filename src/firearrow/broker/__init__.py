"""A broker: takes messages, keeps them, hands them out. `broker` wires, the other modules decide."""
