"""Tests mirror protocol/fetch."""
