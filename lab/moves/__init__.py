"""Moves of partitions on a running cluster: asked for, carried out, interfered with, and measured."""
