"""RocketMQ's remoting protocol without I/O: frames, headers, typed requests, connections."""
