"""A sidecar as a process: its listeners, its parts, its connections, start and drain."""
