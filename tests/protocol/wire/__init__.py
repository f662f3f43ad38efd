"""Tests mirror protocol/wire."""
