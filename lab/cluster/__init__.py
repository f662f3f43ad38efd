"""A cluster of brokers, taps and sidecars, started from a plan, and its administrator."""
