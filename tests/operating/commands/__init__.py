"""Tests of operating.commands."""
