{{/* What processes are told by their environment. */}}

{{/* A value as it was written: Helm reads whole numbers as floats, and 4e+06 is no size. A list is joined by commas. */}}
{{- define "framehold.written" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}
{{ int64 . }}
{{- else if kindIs "slice" . -}}
{{ join "," . }}
{{- else -}}
{{ toString . }}
{{- end -}}
{{- end }}

{{/* A map of settings as FRAMEHOLD_* variables; null leaves one out. */}}
{{- define "framehold.settings" -}}
{{- range $key, $value := . }}
{{- if not (kindIs "invalid" $value) }}
- name: FRAMEHOLD_{{ $key | snakecase | upper }}
  value: {{ include "framehold.written" $value | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* What makes processes one fleet, but for the keys. `$` is given. */}}
{{- define "framehold.env.fleet" -}}
{{- if not .Values.auth.asFiles }}
{{ include "framehold.env.token" (dict "root" . "name" "adminToken") }}
- name: FRAMEHOLD_STORE_URL
  valueFrom:
    secretKeyRef: {name: {{ include "framehold.storeSecret" . | quote }}, key: {{ include "framehold.storeKey" . | quote }}}
{{- end }}
- name: FRAMEHOLD_ALLOWED_HOSTS
  value: {{ include "framehold.allowedHosts" . | quote }}
{{- include "framehold.settings" (merge (dict "namespace" (include "framehold.namespace" .)) .Values.settings) }}
{{- end }}

{{- define "framehold.env.secretsFolder" -}}
- name: FRAMEHOLD_SECRETS_DIR
  value: /etc/framehold/secrets
{{- end }}

{{/* A token, if there is one: as a variable, or the folder of the files. `dict "root" $ "name" "adminToken"`. */}}
{{- define "framehold.env.token" -}}
{{- $root := .root -}}
{{- $name := .name -}}
{{- with index $root.Values.auth (printf "%sKey" $name) -}}
{{- if $root.Values.auth.asFiles -}}
{{ include "framehold.env.secretsFolder" $root }}
{{- else -}}
- name: FRAMEHOLD_{{ $name | snakecase | upper }}
  valueFrom:
    secretKeyRef: {name: {{ include "framehold.authSecret" $root | quote }}, key: {{ . | quote }}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Where a router's own secrets are: what is derived from the keys for it, and the rest. */}}
{{- define "framehold.env.routerSecrets" -}}
- name: FRAMEHOLD_SECRETS_DIR
  value: {{ .Values.auth.asFiles | ternary "/etc/framehold/secrets:/run/framehold" "/run/framehold" }}
{{- end }}

{{/* The keys, as a variable, or the folder of the files. */}}
{{- define "framehold.env.keys" -}}
{{- if .Values.auth.asFiles -}}
{{ include "framehold.env.secretsFolder" . }}
{{- else -}}
- name: FRAMEHOLD_KEYS
  valueFrom:
    secretKeyRef: {name: {{ include "framehold.authSecret" . | quote }}, key: {{ .Values.auth.keysKey | quote }}}
{{- end -}}
{{- end }}

{{/* The fleet's own corner of a store that others may use too; at most 63 characters. A dot, which stands in neither name: with
     a hyphen a-b and c would be a and b-c. */}}
{{- define "framehold.namespace" -}}
{{- $own := printf "%s.%s" .Release.Namespace (include "framehold.fullname" .) -}}
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
