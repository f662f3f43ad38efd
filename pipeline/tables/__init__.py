"""The tables that `ingest` writes and every other job reads: Delta Lake tables of journal lines.

    OUT/lines        traffic lines as the sidecars wrote them; `traffic` and `seconds` are views that unfold them
    OUT/events       lines of all other kinds
    OUT/files        an account of each time a journal file was read, written last
    OUT/quarantine   lines that are none of a journal, with the reason
    OUT/times_behind, lag_seconds, held_minutes, replica_days   what `summarise` keeps of whole days

The nouns: a *view* is rows made of a table's lines while they are read. A *version* is the table after one commit: a
job reads one version of each table to its end, whoever writes meanwhile.
"""

from .tables import CachedFrames, Tables, accounted_bytes

__all__ = ["CachedFrames", "Tables", "accounted_bytes"]
