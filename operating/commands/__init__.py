"""One module per command, each with a click `command`; `operating.cli` finds them by name.

A command reads its arguments, calls one layer below and prints. It decides nothing about traffic.
"""
