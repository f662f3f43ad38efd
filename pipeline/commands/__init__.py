"""The jobs as people type them: options in, tables out. One module per group of jobs; no arithmetic here."""
