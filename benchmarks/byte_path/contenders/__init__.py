"""The processes that are compared: the sidecar, and other proxies, each with its configuration."""
