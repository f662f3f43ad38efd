"""Answers from the journals, by Spark: was the bound kept, will it finish, what rate should be set.

The nouns: *lines* are the journals as the sidecars wrote them; *tables* are what `ingest` makes of them; a *job* is
a function from tables to a table, with a thin entry point in `pipeline.commands`; an *end* of a link is what one of its
two sidecars saw of it; a *question* (`pipeline.questions`) is answered by a sentence. Knows the journal's schema and
the admission code, never the sidecar. Invariant: only entry points hold a session, read or write.
"""
