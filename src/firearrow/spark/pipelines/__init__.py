"""Jobs over topics and their history: archive, replay, audit. Transforms are apart from the wiring."""
