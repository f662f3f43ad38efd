"""Tests of proxy.commands."""
