"""Sums of what every replica fetched, second by second, until the journal writes them.
 `ledger` adds up what `throttle.link_journal` reports; `blocks` are what it hands out: fifteen seconds each, put in
order by the journal's thread. Pure: no clock, no file."""
