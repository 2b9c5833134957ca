"""Long proofs by command: kills, power cuts, full disks, stock clients at our servers."""
