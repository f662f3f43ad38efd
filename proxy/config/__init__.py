"""proxy.toml and quotas.toml as the process has them: read at start, quotas read again whenever they change."""
