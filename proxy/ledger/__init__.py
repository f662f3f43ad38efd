"""Sums of every replica's fetches, second by second, until the journal writes them.

`link_journal` reports what passes on one connection, `ledger` adds it up; `blocks` are what it hands out: fifteen
seconds each, put in order by the journal's thread. Pure: no clock, no file.
"""
