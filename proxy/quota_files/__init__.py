"""quotas.toml and overrides on disk: read at start, read again when they change, and the last good ones kept."""
