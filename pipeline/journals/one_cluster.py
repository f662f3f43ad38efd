"""Tables are of one cluster: its brokers are told apart by their ids alone, and its journals' files by their names.

A journal file says the id of its cluster once a broker has told the sidecar. Two clusters whose ids are unknown, or two
sidecars with one broker id, may write files of the same name: each run of a sidecar has a name of its own, so that of
two such files the runs differ. Invariant: nothing is written of files of another cluster, and a file of another run is
never taken for a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ..tables.file_accounts import journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OF_ITS_OWN = "Give each cluster journals and tables (--into) of its own"


def strangers(files: DataFrame, known: DataFrame) -> dict[str, str]:
    """Return why files are not of this cluster, by path: they say another one, or are of another run than a file of
    that name.

    files: their account. known: that of all files before.
    """
    accounts = known.withColumn("is_new", F.lit(False)).unionByName(files.withColumn("is_new", F.lit(True)))
    names = files.select(journal().alias("journal")).distinct()
    of_name = accounts.withColumn("journal", journal()).join(F.broadcast(names), on="journal", how="left_semi")
    of_run = _others(of_name, "run", ": two clusters, or two sidecars with one broker id", "journal")
    return of_run | _others(accounts, "cluster", "")


def _others(accounts: DataFrame, what: str, why: str, *keys: str) -> dict[str, str]:
    """Return of accounts with the same `keys` the new ones that say another cluster, or run, than the first; a known
    one is right."""
    each = accounts.where(F.col(what).isNotNull()).groupBy(*keys, what)
    paths = F.collect_set(F.when(F.col("is_new"), F.col("path"))).alias("paths")
    told = F.struct("first", F.col(what).alias("name"), "paths")
    both = each.agg(F.min(F.struct("is_new", "path")).alias("first"), paths).groupBy(*keys)
    rows = both.agg(F.sort_array(F.collect_list(told)).alias("told")).where("size(told) > 1").collect()
    return {
        path: f"{path}: expected lines of {what} {row.told[0].name} as in {row.told[0].first.path}, found those of"
        f" {what} {wrong.name}{why}. {OF_ITS_OWN}"
        for row in rows for wrong in row.told[1:] for path in wrong.paths
    }  # fmt: skip
