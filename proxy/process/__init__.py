"""Keeps the process in service: supervised tasks, the watchdog, signals, the service manager, the heartbeat."""
