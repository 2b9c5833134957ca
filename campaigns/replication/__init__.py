"""Long proofs about replication: logs of masters and slaves, ours and Apache's, equal byte for byte across kills."""
