"""Rates that set themselves: which rate holds in this second, between the bounds that quotas.toml gives.

- **Rate source** (`proxy.quotas.rate_source`): the file's words: bounds, a deadline, or that nothing may hurt.
- **Observed** (`choice`): the findings of a look at a role: lag, producers' rate, traffic.
- **Need** (`deadline_rate`): the least rate that ends in time.
- **Choice** (`choice`): the rate of a role from now on, and its reason.
- **RateController** (`rate_controller`): puts a choice in force about once a second; the only part that waits.

Nothing but `rate_controller` imports Trio, reads a clock or writes a log.
"""
