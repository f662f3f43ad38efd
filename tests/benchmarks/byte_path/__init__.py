"""Tests of the benchmarks' own parts: no figure is held to anything here."""
