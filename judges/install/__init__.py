"""Apache's servers and stock clients, downloaded and built once, kept outside the tree."""
