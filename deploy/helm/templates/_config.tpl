{{/* The loopback address at which a broker's name leads to the sidecar. Takes the broker's place in the list. */}}
{{- define "throttle.loopback" -}}
127.0.{{ add 100 . }}.1
{{- end }}

{{/* Every interface of a pod, as proxy.toml has it. */}}
{{- define "throttle.any" -}}
{{ ternary "[::]" "0.0.0.0" (eq .Values.ipFamily "IPv6") }}
{{- end }}

{{/* proxy.toml of one broker's sidecar. Takes (list BROKER ROOT). */}}
{{- define "throttle.proxy" -}}
{{- $own := index . 0 -}}
{{- $root := index . 1 -}}
{{- $values := $root.Values -}}
[broker]
id = {{ int $own.id }}
{{- if $values.ingress.enabled }}

[ingress]
listen = "{{ include "throttle.any" $root }}:{{ int $values.ingress.port }}"
upstream = "127.0.0.1:{{ int $values.ingress.brokerPort }}"
{{- end }}
{{- if $values.egress.enabled }}

[egress]
mode = {{ $values.egress.mode | quote }}
{{- if eq $values.egress.mode "transparent" }}
listen = "[::]:{{ int $values.egress.redirectPort }}"
{{- end }}
{{- if eq $values.egress.mode "peers" }}
{{- range $place, $peer := $values.brokers }}
{{- if ne (int $peer.id) (int $own.id) }}

[[egress.peers]]
broker = {{ int $peer.id }}
listen = "{{ include "throttle.loopback" $place }}:{{ int $values.egress.port }}"
upstream = "{{ $peer.address }}:{{ int $values.egress.port }}"
{{- if $values.tls }}
server_name = {{ $peer.name | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

[quotas]
file = "/etc/throttle-sidecar-quotas/quotas.toml"

[http]
listen = "{{ include "throttle.any" $root }}:{{ int $values.http.port }}"
{{- if $values.http.tokenSecretName }}
token_file = "/etc/throttle-sidecar-token/token"
{{- end }}
{{ end }}

{{/* Each broker's proxy.toml, by its pod's name. */}}
{{- define "throttle.proxies" -}}
{{- range .Values.brokers }}
{{ .pod }}.toml: |
  {{- include "throttle.proxy" (list . $) | trim | nindent 2 }}
{{- end }}
{{- end }}

{{/* What the chart writes into proxy.toml itself, and what says so in values. An override of it would leave pods, probes and
policies at ports and files that the sidecar no longer has. */}}
{{- define "throttle.own" -}}
{
  "broker.id": "brokers[].id",
  "ingress.listen": "ingress.port",
  "ingress.upstream": "ingress.brokerPort",
  "egress.mode": "egress.mode",
  "egress.listen": "egress.redirectPort",
  "egress.peers": "brokers",
  "quotas.file": "quotas.initial",
  "quotas.state": "quotas.stateVolume",
  "control.directory": "nothing, since its volume is the chart's",
  "http.listen": "http.port",
  "http.token_file": "http.tokenSecretName"
}
{{- end }}

{{/* Two listeners of a pod on one port: the broker or the sidecar would not start, or the sidecar would dial itself. */}}
{{- define "throttle.check-ports" -}}
{{- $ports := dict "http.port" .Values.http.port }}
{{- if .Values.ingress.enabled }}
{{- $_ := set $ports "ingress.port" .Values.ingress.port }}
{{- $_ = set $ports "ingress.brokerPort" .Values.ingress.brokerPort }}
{{- end }}
{{- if and .Values.egress.enabled (eq .Values.egress.mode "transparent") }}
{{- $_ := set $ports "egress.redirectPort" .Values.egress.redirectPort }}
{{- end }}
{{- range $key, $port := $ports }}
{{- range $other, $taken := $ports }}
{{- if and (lt $key $other) (eq (int $port) (int $taken)) }}
{{- fail (printf "%s: expected another port than %s, which is listened on in the same pod; found %d" $key $other (int $port)) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.egress.enabled (eq .Values.egress.mode "peers") (eq (int .Values.http.port) (int .Values.egress.port)) }}
{{- fail (printf "http.port: expected another port than egress.port, at which the sidecar listens for the other brokers; found %d" (int .Values.http.port)) }}
{{- end }}
{{- end }}

{{/* What has to be true of the list of brokers that its schema cannot say. */}}
{{- define "throttle.check" -}}
{{- if hasKey .Values "webhook" }}
{{- fail "webhook: the admission webhook is gone; injection.engine adds the sidecar instead (kubernetes: from Kubernetes 1.36 on; kyverno). Remove webhook.* from the values, and if the release was rendered by another tool than Helm, delete its MutatingWebhookConfiguration first, which with failurePolicy Fail would block every labelled pod: docs/kubernetes.md, \"From the webhook\"" }}
{{- end }}
{{- include "throttle.check-ports" . }}
{{- range $key := list "id" "pod" "name" }}
{{- $seen := dict }}
{{- range $place, $broker := $.Values.brokers }}
{{- $found := get $broker $key | include "throttle.plain" }}
{{- if hasKey $seen $found }}
{{- fail (printf "brokers[%d].%s: %s is brokers[%v]'s already" $place $key $found (get $seen $found)) }}
{{- end }}
{{- $_ := set $seen $found $place }}
{{- end }}
{{- end }}
{{- range $place, $broker := .Values.brokers }}
{{- if and $.Values.egress.enabled (eq $.Values.egress.mode "peers") (eq $broker.name $broker.address) }}
{{- fail (printf "brokers[%d].address: expected another name than %s, which leads to the sidecar itself" $place $broker.name) }}
{{- end }}
{{- end }}
{{- if and .Values.egress.enabled (eq .Values.egress.mode "peers") (lt (len .Values.brokers) 2) }}
{{- fail "brokers: expected two at least, since with egress.mode \"peers\" a sidecar leads to the others; found 1" }}
{{- end }}
{{- if and .Values.egress.enabled (eq .Values.egress.mode "peers") (not .Values.ingress.enabled) }}
{{- fail "egress.mode: expected transparent without ingress.enabled, since in every pod a broker's own name leads to its sidecar, too, where nobody would listen for it; found peers" }}
{{- end }}
{{- if and .Values.guard.create .Values.egress.enabled (eq .Values.egress.mode "peers") }}
{{- fail "guard.create: expected egress.mode transparent, since the guard looks up the peers' names when it starts, and pods change their addresses; found peers" }}
{{- end }}
{{- if and .Values.guard.create .Values.ingress.enabled (eq .Values.ipFamily "IPv6") }}
{{- fail "guard.create: expected ipFamily IPv4 with ingress.enabled, since no kernel leads from an IPv6 address of the pod to 127.0.0.1; found IPv6" }}
{{- end }}
{{- range $key, $_ := .Values.settings }}
{{- if or (hasSuffix ".password" $key) (hasSuffix "jaas.config" $key) }}
{{- fail (printf "settings.%s: expected the password by a mounted file (….password.file), since settings are arguments of the container, which many may read" $key) }}
{{- end }}
{{- end }}
{{- if eq (get .Values.settings "http.tls.ssl.client.auth" | toString | trimAll "\"'") "required" }}
{{- fail "settings.http.tls.ssl.client.auth: expected none or requested, since the kubelet's probes show no certificate; found required" }}
{{- end }}
{{- if and (include "throttle.wants-token" .) (not .Values.http.tokenSecretName) }}
{{- fail "settings.http.require_token: expected http.tokenSecretName beside it, since a sidecar without the token does not start" }}
{{- end }}
{{- range $key, $instead := include "throttle.own" . | fromJson }}
{{- if hasKey $.Values.settings $key }}
{{- fail (printf "settings.%s: expected a key that the chart does not write itself; say %s" $key $instead) }}
{{- end }}
{{- end }}
{{- if .Values.quotas.create }}{{ include "throttle.check-quotas" . }}{{ end }}
{{- if not (or .Values.ingress.enabled .Values.egress.enabled) }}
{{- fail "ingress.enabled, egress.enabled: expected one of them at least, or the sidecar has nothing to do" }}
{{- end }}
{{- end }}
