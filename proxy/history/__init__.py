"""The history of a sidecar's changes: when, by whom, why, and the values in force before and after.

    history-101.jsonl        a line of JSON for each change of overrides, quotas.toml or process
    conditions-101.jsonl     conditions raised and cleared: however many, they push no change out
    ….old                    the lines before those

They are kept for 30 days or 10 MB, beside the overrides.

`records` is pure, `files` reads and writes, `recorder` belongs to the running process.
"""
