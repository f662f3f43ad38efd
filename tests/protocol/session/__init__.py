"""Tests mirror protocol/session."""
