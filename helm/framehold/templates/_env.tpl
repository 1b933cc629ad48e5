{{/* What processes are told by their environment. */}}

{{/* A map of settings as FRAMEHOLD_* variables; null leaves one out. Helm reads whole numbers as floats: 4e+06 is no size. */}}
{{- define "framehold.settings" -}}
{{- range $key, $value := . }}
{{- if not (kindIs "invalid" $value) }}
- name: FRAMEHOLD_{{ $key | snakecase | upper }}
  {{- if and (kindIs "float64" $value) (eq $value (floor $value)) }}
  value: {{ $value | int64 | quote }}
  {{- else }}
  value: {{ $value | toString | quote }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What makes processes one fleet. `$` is given. */}}
{{- define "framehold.env.fleet" -}}
- name: FRAMEHOLD_KEYS
  valueFrom:
    secretKeyRef: {name: {{ include "framehold.authSecret" . }}, key: {{ .Values.auth.keysKey | quote }}}
{{- with .Values.auth.adminTokenKey }}
- name: FRAMEHOLD_ADMIN_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ include "framehold.authSecret" $ }}, key: {{ . | quote }}}
{{- end }}
- name: FRAMEHOLD_STORE_URL
  valueFrom:
    secretKeyRef: {name: {{ include "framehold.storeSecret" . }}, key: {{ include "framehold.storeKey" . | quote }}}
{{- include "framehold.settings" (merge (dict "namespace" (include "framehold.namespace" .)) .Values.settings) }}
{{- end }}

{{/* The fleet's own corner of a store that others may use too; at most 63 characters. */}}
{{- define "framehold.namespace" -}}
{{- $own := printf "%s-%s" .Release.Namespace (include "framehold.fullname" .) -}}
{{- .Values.settings.namespace | default (gt (len $own) 63 | ternary (sha256sum $own | trunc 40) $own) -}}
{{- end }}

{{/* Who a node is, and where this incarnation of it is reached: by address, since a name leads to the last one for a while. */}}
{{- define "framehold.env.node" -}}
- name: FRAMEHOLD_NODE_ID
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
- name: POD_IP
  valueFrom:
    fieldRef: {fieldPath: status.podIP}
- name: FRAMEHOLD_ADVERTISE_URL
  value: {{ eq .Values.ipFamily "IPv6" | ternary "http://[$(POD_IP)]:8080" "http://$(POD_IP):8080" }}
- name: FRAMEHOLD_ALLOWED_HOSTS
  value: {{ include "framehold.allowedHosts" . | quote }}
- name: FRAMEHOLD_ALLOWED_ORIGINS
  value: {{ include "framehold.allowedOrigins" . | quote }}
{{- end }}

{{- define "framehold.listen" -}}
{{ eq .Values.ipFamily "IPv6" | ternary "::" "0.0.0.0" }}
{{- end }}

{{- define "framehold.target" -}}
{{- if .Values.node.source -}}
/etc/framehold/source/server.py
{{- else -}}
{{ .Values.node.target | default "framehold.examples.booking" }}
{{- end -}}
{{- end }}
