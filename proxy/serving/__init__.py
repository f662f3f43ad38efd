"""A sidecar as a process: what it listens on, its parts, its connections, start and drain."""
