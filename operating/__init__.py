"""The commands for operators: they ask, plan, check and report. Imports `proxy`, never the reverse."""
