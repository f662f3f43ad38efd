"""Answers from the journals, by Spark: was the bound kept, will it finish, what rate should be set.

The nouns, and the folders in the order in which each may import those before it:

- **Tables** (`tables`): Delta tables of journal lines, their schema, and the views that jobs read.
- **Jobs** (`jobs`): functions from tables to a table that measure what was recorded. An *end* of a link is what one of
  its two sidecars saw of it.
- **Models** (`model`): what would have happened, or will, under other quotas.
- **Journals** (`journals`): the sidecars' files on their way into the tables.
- **Questions** (`questions`) are answered by a sentence, the **report** (`report`) is one page of them.
- **Commands** (`commands`): thin entry points. Only they hold a session, read or write.

Knows the journal's schema, never the sidecar.
"""
