{{/* What a broker's pod has with its sidecar, and has not without. */}}
{{- define "throttle.pod" -}}
{{- $values := .Values -}}
{{- $peers := and $values.egress.enabled (eq $values.egress.mode "peers") -}}
{{- $transparent := and $values.egress.enabled (eq $values.egress.mode "transparent") -}}
{{- if $peers }}
hostAliases:
  {{- range $place, $broker := $values.brokers }}
  - ip: {{ include "throttle.loopback" $place }}
    hostnames: [{{ $broker.name | quote }}]
  {{- end }}
{{- end }}
{{- with $values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
initContainers:
  {{- if $transparent }}
  {{- include "throttle.redirect" . | nindent 2 }}
  {{- end }}
  {{- if and $values.guard.create $values.ingress.enabled }}
  {{- include "throttle.route-localnet" . | nindent 2 }}
  {{- end }}
  {{- include "throttle.container" . | nindent 2 }}
  {{- if $values.guard.create }}
  {{- include "throttle.guard" . | nindent 2 }}
  {{- end }}
volumes:
  - name: throttle-sidecar
    configMap: {name: {{ include "throttle.name" . }}}
  - name: throttle-quotas
    configMap: {name: {{ include "throttle.name" . }}-quotas}
  {{- if not $values.quotas.stateVolume }}
  - name: throttle-state
    emptyDir: {sizeLimit: 32Mi}
  {{- end }}
  - name: throttle-control
    emptyDir: {medium: Memory, sizeLimit: 1Mi}
  {{- if $values.http.tokenSecretName }}
  - name: throttle-token
    secret: {secretName: {{ $values.http.tokenSecretName | quote }}, defaultMode: 0440}
  {{- end }}
  {{- range $values.tls }}
  - name: throttle-tls-{{ .name }}
    secret: {secretName: {{ .secretName | quote }}, defaultMode: 0440}
  {{- end }}
{{- end }}

{{- define "throttle.redirect" -}}
- name: throttle-redirect
  image: {{ include "throttle.image" (list .Values.redirectImage .) | quote }}
  imagePullPolicy: {{ .Values.redirectImage.pullPolicy }}
  args: [add, --ports, {{ .Values.egress.port | int | quote }}, --to, {{ .Values.egress.redirectPort | int | quote }}, --uid, {{ .Values.runAsUser | int | quote }}]
  securityContext:
    # iptables wants user 0, of whose powers this is left.
    runAsUser: 0
    runAsNonRoot: false
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    capabilities: {drop: [ALL], add: [NET_ADMIN]}
    seccompProfile: {type: RuntimeDefault}
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 64Mi}
{{- end }}

{{- define "throttle.settings" -}}
{{- range $key, $value := .Values.settings }}
- {{ printf "--set=%s=%s" $key (include "throttle.plain" $value) | quote }}
{{- end }}
{{- end }}

{{/* The way around the ingress leads from the pod's address to 127.0.0.1, which the kernel drops unless this is set. Only a
privileged container may set it, so it is one that ends. */}}
{{- define "throttle.route-localnet" -}}
- name: throttle-route-localnet
  image: {{ include "throttle.image" (list .Values.redirectImage .) | quote }}
  imagePullPolicy: {{ .Values.redirectImage.pullPolicy }}
  command: [sh, -c, echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet]
  securityContext:
    runAsUser: 0
    runAsNonRoot: false
    readOnlyRootFilesystem: true
    privileged: true
    seccompProfile: {type: RuntimeDefault}
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 64Mi}
{{- end }}

{{- define "throttle.guard" -}}
- name: throttle-guard
  image: {{ include "throttle.image" (list .Values.redirectImage .) | quote }}
  imagePullPolicy: {{ .Values.redirectImage.pullPolicy }}
  # It starts after the sidecar, whose socket it asks, and stops before it.
  restartPolicy: Always
  command: [throttle-sidecar]
  args:
    - guard
    - --config=/etc/throttle-sidecar/$(POD_NAME).toml
    {{- include "throttle.settings" . | nindent 4 }}
    - {{ printf "--after=%s" .Values.guard.after | quote }}
    - --ports={{ int .Values.egress.port }}
    - --uid={{ int .Values.runAsUser }}
  env:
    - name: POD_NAME
      valueFrom:
        fieldRef: {fieldPath: metadata.name}
  securityContext:
    # control.sock answers its own user and root. DAC_OVERRIDE opens the sidecar's private directory to root.
    runAsUser: 0
    runAsNonRoot: false
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    capabilities: {drop: [ALL], add: [NET_ADMIN, DAC_OVERRIDE]}
    seccompProfile: {type: RuntimeDefault}
  resources:
    requests: {cpu: 20m, memory: 48Mi}
    limits: {memory: 128Mi}
  volumeMounts:
    - {name: throttle-sidecar, mountPath: /etc/throttle-sidecar, readOnly: true}
    - {name: throttle-control, mountPath: /run/kafka-throttle-sidecar}
{{- end }}

{{- define "throttle.container" -}}
{{- $scheme := ternary ", scheme: HTTPS" "" (eq (include "throttle.https" .) "true") -}}
- name: throttle-sidecar
  image: {{ include "throttle.image" (list .Values.image .) | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  # A native sidecar: it starts before the broker and stops after it.
  restartPolicy: Always
  args:
    - run
    - --config=/etc/throttle-sidecar/$(POD_NAME).toml
    {{- include "throttle.settings" . | nindent 4 }}
  env:
    - name: POD_NAME
      valueFrom:
        fieldRef: {fieldPath: metadata.name}
    # The overrides are kept beside it.
    - {name: THROTTLE_QUOTAS__STATE, value: /var/lib/throttle-sidecar/quotas}
  ports:
    {{- if .Values.ingress.enabled }}
    - {name: replication, containerPort: {{ int .Values.ingress.port }}}
    {{- end }}
    - {name: throttle-http, containerPort: {{ int .Values.http.port }}}
  startupProbe:
    httpGet: {path: /healthz, port: throttle-http{{ $scheme }}}
    periodSeconds: 1
    failureThreshold: 60
  livenessProbe:
    httpGet: {path: /healthz, port: throttle-http{{ $scheme }}}
    periodSeconds: 10
    timeoutSeconds: 3
  readinessProbe:
    httpGet: {path: /readyz, port: throttle-http{{ $scheme }}}
    periodSeconds: 5
    timeoutSeconds: 3
  securityContext:
    runAsUser: {{ int .Values.runAsUser }}
    runAsGroup: {{ int .Values.runAsUser }}
    runAsNonRoot: true
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    capabilities: {drop: [ALL]}
    seccompProfile: {type: RuntimeDefault}
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  volumeMounts:
    # Whole directories: a single file by subPath would never change.
    - {name: throttle-sidecar, mountPath: /etc/throttle-sidecar, readOnly: true}
    - {name: throttle-quotas, mountPath: /etc/throttle-sidecar-quotas, readOnly: true}
    {{- if .Values.quotas.stateVolume }}
    # A directory of its own: the volume may be the broker's.
    - {name: {{ .Values.quotas.stateVolume | quote }}, mountPath: /var/lib/throttle-sidecar, subPath: throttle-sidecar}
    {{- else }}
    - {name: throttle-state, mountPath: /var/lib/throttle-sidecar}
    {{- end }}
    - {name: throttle-control, mountPath: /run/kafka-throttle-sidecar}
    {{- if .Values.http.tokenSecretName }}
    - {name: throttle-token, mountPath: /etc/throttle-sidecar-token, readOnly: true}
    {{- end }}
    {{- range .Values.tls }}
    - {name: {{ printf "throttle-tls-%s" .name | quote }}, mountPath: {{ printf "/etc/throttle-sidecar-tls/%s" .name | quote }}, readOnly: true}
    {{- end }}
{{- end }}
