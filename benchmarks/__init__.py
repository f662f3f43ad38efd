"""Measured side by side, in one run: never as a timed test, never one without the other."""
