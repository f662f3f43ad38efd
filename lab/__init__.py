"""Real Kafka clusters with their sidecars on one machine, measured on the wire.

Used by the demo, the system tests and the benchmarks; by hand as `python -m lab`. Everything lives on loopback
addresses of its own and ends with the process that started it, so several labs can run at once.
"""
