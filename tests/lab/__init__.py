"""Tests of the lab that need no broker; those that do are in tests/system."""
