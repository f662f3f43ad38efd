"""The way in: journal files are read, checked line by line, and written to the tables once, by `ingest` or `stream`."""
