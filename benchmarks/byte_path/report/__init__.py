"""The results of runs: tables in a terminal, and the part of docs/benchmarks.md with its plots."""
