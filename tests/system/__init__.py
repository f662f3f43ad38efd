"""Tests of the whole thing: real brokers, real sidecars, real time."""
