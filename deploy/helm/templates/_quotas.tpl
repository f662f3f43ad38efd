{{/* What `throttle-sidecar check` would refuse of quotas.initial, as far as it can be told line by line: lines that are no TOML,
keys that no section has, rates that are none. Helm 3 reads no TOML. What stands in lists and texts of several lines is passed over.
`python -m deploy` writes the patterns of keys from proxy/quotas/keys.py. */}}
{{- define "throttle.check-quotas" -}}
{{- $known := `^(brokers\.(.+\.)?(leader\.replication\.throttled\.rate|follower\.replication\.throttled\.rate|leader\.replication\.throttled\.replicas|follower\.replication\.throttled\.replicas|until|(leader\.replication\.throttled\.rate|follower\.replication\.throttled\.rate)\.(finish_by|within|timezone|auto|min|max))|peers\.(.+\.)?(leader\.replication\.throttled\.rate|follower\.replication\.throttled\.rate|until)|racks\.(.+\.)?(leader\.replication\.throttled\.rate|follower\.replication\.throttled\.rate|until)|topics\.(.+\.)?(leader\.replication\.throttled\.rate|follower\.replication\.throttled\.rate|leader\.replication\.throttled\.replicas|follower\.replication\.throttled\.replicas|until)|clients\.(.+\.)?(producer_byte_rate|consumer_byte_rate|catch_up_only|max_throttle|request_percentage|controller_mutation_rate|until)|users\.(.+\.)?(producer_byte_rate|consumer_byte_rate|catch_up_only|max_throttle|request_percentage|controller_mutation_rate|until)|listener\.(rate|until)|mode\.(enforce|until)|priorities\.(order|min\.insync\.replicas|default\.replication\.factor))$` }}
{{- $tables := `^(brokers|clients|listener|mode|peers|priorities|racks|topics|users)(\..+)?$` }}
{{- $rates := `^.+\.(leader\.replication\.throttled\.rate|follower\.replication\.throttled\.rate|producer_byte_rate|consumer_byte_rate|rate|request_percentage|controller_mutation_rate)$` }}
{{- $rate := "^(\"unlimited\"|'unlimited'|[0-9][0-9_]*|[\"'][0-9]+(\\.[0-9]+)? *(|B|[kK]B|KiB|MB|MiB|GB|GiB|TB|TiB)(/s)?[\"']|\\{.*)\\s*(#.*)?$" }}
{{- $text := regexReplaceAll "(?s)\"\"\".*?\"\"\"|'''.*?'''" .Values.quotas.initial "\"\"" }}
{{- $text = regexReplaceAll "=\\s*\\[[^\\]]*\\]" $text "= []" }}
{{- $table := "" }}
{{- range $line := splitList "\n" $text }}
{{- $line = trim $line }}
{{- if or (not $line) (hasPrefix "#" $line) }}
{{- else if regexMatch "^\\[.*\\]\\s*(#.*)?$" $line }}
{{- $table = regexReplaceAll "^\\[+\\s*([^#]*?)\\s*\\]+\\s*(#.*)?$" $line "${1}" | replace "\"" "" | replace "'" "" }}
{{- if not (regexMatch $tables $table) }}
{{- fail (printf "quotas.initial: [%s]: unknown table; expected brokers, clients, listener, mode, peers, priorities, racks, topics or users" $table) }}
{{- end }}
{{- else if regexMatch "^[A-Za-z0-9_.\"'*? -]+=\\s*\\S" $line }}
{{- $key := regexFind "^[^=]+" $line | replace "\"" "" | replace "'" "" | nospace }}
{{- $path := ternary (printf "%s.%s" $table $key) $key (ne $table "") }}
{{- $value := regexReplaceAll "^[^=]+=\\s*" $line "" }}
{{- if not (or (regexMatch $known $path) (and (hasPrefix "{" $value) (regexMatch $tables $path))) }}
{{- fail (printf "quotas.initial: %s: unknown key (docs/quotas.md)" $path) }}
{{- end }}
{{- if and (regexMatch $rates $path) (not (regexMatch $rate $value)) }}
{{- fail (printf "quotas.initial: %s: expected bytes per second as an integer or text like \"50MiB/s\", or \"unlimited\", found %s" $path $value) }}
{{- end }}
{{- else }}
{{- fail (printf "quotas.initial: expected lines of TOML (docs/quotas.md), found %s" ($line | quote)) }}
{{- end }}
{{- end }}
{{- end }}
