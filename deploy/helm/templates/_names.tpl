{{- define "throttle.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "throttle.labels" -}}
app.kubernetes.io/name: kafka-throttle-sidecar
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{/* An image by its digest, or else its tag. Takes (list IMAGE ROOT). */}}
{{- define "throttle.image" -}}
{{- $image := index . 0 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default (index . 1).Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Whether an object of the Prometheus Operator's is wanted: true, or empty. Takes (list CREATE KIND ROOT). */}}
{{- define "throttle.wanted" -}}
{{- $create := index . 0 -}}
{{- if eq (toString $create) "auto" -}}
{{- if (index . 2).Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" (index . 1)) }}true{{ end -}}
{{- else if $create }}true{{ end -}}
{{- end }}

{{/* A text, number or boolean as it was written. Helm reads numbers as floating-point ones, which print as 1e+06 and the
like from a million on; JSON prints integers whole. Takes the value. */}}
{{- define "throttle.plain" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end -}}
{{- end }}

{{/* What selects the brokers' pods. The default is here, not in values.yaml, whose maps Helm merges with those of the user. */}}
{{- define "throttle.selector" -}}
{{- .Values.podSelector | default (dict "matchLabels" (dict "app.kubernetes.io/name" "kafka")) | toYaml -}}
{{- end }}

{{/* Whether the sidecar's HTTP port speaks TLS, by `settings`: true, or empty. */}}
{{- define "throttle.https" -}}
{{- $found := "" -}}
{{- range $key, $value := .Values.settings -}}
{{- if or (eq $key "http.tls") (hasPrefix "http.tls." $key) -}}{{- $found = "true" -}}{{- end -}}
{{- end -}}
{{- if ne (get .Values.settings "http.tls.security.protocol" | toString | trimAll "\"'") "PLAINTEXT" -}}{{ $found }}{{- end -}}
{{- end }}

{{/* Not empty if every page but the probes' wants the token. */}}
{{- define "throttle.wants-token" -}}
{{- if eq (get .Values.settings "http.require_token" | toString | trim) "true" -}}true{{- end -}}
{{- end }}
