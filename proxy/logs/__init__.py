"""Log lines: formatted, limited in rate by cause, and written by a thread behind a bounded queue."""
