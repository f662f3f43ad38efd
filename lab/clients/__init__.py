"""Producers and consumers of several libraries, each a process of its own that says what it did, for client quotas."""
