"""The doors to the world: the only package that may touch time, files, sockets and threads."""
