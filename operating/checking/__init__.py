"""The report of ``check`` about proxy.toml and quotas.toml: effective quotas, the layer of each, deadlines, keys.

`report` collects it for JSON and for people; `keys` is a part of it.
"""
