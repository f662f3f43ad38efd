"""Tests mirror protocol/walkers."""
