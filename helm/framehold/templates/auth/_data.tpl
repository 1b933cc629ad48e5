{{/*
What the Secrets hold, as YAML of data in base64. Said: taken from the values. Else found in the cluster, so that an
upgrade keeps it; else drawn. What was drawn is kept in .Values, for whoever asks again within this rendering.
*/}}

{{- define "framehold.found" -}}
{{- (lookup "v1" "Secret" .root.Release.Namespace .name).data | default dict | toYaml -}}
{{- end }}

{{- define "framehold.auth.data" -}}
{{- if .Values.auth.existingSecret -}}
{{ include "framehold.found" (dict "root" . "name" .Values.auth.existingSecret) }}
{{- else -}}
{{- if not (hasKey .Values.auth "drawn") -}}
{{- $name := include "framehold.fullname" . -}}
{{- $found := include "framehold.found" (dict "root" . "name" $name) | fromYaml -}}
{{- $keys := .Values.auth.keys | join "," | b64enc | default (get $found .Values.auth.keysKey) -}}
{{- if and .Release.IsUpgrade (not $keys) -}}
{{- fail (printf "the Secret %s/%s with this fleet's keys is not there: new ones would end every parked call, and nothing was changed; put the Secret back, or say auth.keys or auth.existingSecret" .Release.Namespace $name) -}}
{{- end -}}
{{- $drawn := dict .Values.auth.keysKey ($keys | default (randAlphaNum 64 | b64enc)) -}}
{{- with .Values.auth.adminTokenKey -}}
{{- $_ := set $drawn . ($.Values.auth.adminToken | b64enc | default (get $found .) | default (randAlphaNum 40 | b64enc)) -}}
{{- end -}}
{{- $_ := set .Values.auth "drawn" $drawn -}}
{{- end -}}
{{ toYaml .Values.auth.drawn }}
{{- end -}}
{{- end }}

{{- define "framehold.store.data" -}}
{{- if .Values.store.existingSecret.name -}}
{{ include "framehold.found" (dict "root" . "name" .Values.store.existingSecret.name) }}
{{- else if .Values.store.url -}}
url: {{ .Values.store.url | b64enc }}
{{- else -}}
{{- if not (hasKey .Values.store "drawn") -}}
{{- $name := include "framehold.storeSecret" . -}}
{{- $found := include "framehold.found" (dict "root" . "name" $name) | fromYaml -}}
{{- $password := get $found "password" | b64dec | default (randAlphaNum 40) -}}
{{- $host := printf "%s.%s.svc.%s" $name .Release.Namespace .Values.clusterDomain -}}
{{- $drawn := dict "password" $password "url" (printf "redis://:%s@%s:6379/0" $password $host) "valkey.conf" (include "framehold.store.config" (dict "root" . "password" $password)) -}}
{{- $encoded := dict -}}
{{- range $key, $value := $drawn }}{{ $_ := set $encoded $key ($value | b64enc) }}{{ end -}}
{{- $_ := set .Values.store "drawn" $encoded -}}
{{- end -}}
{{ toYaml .Values.store.drawn }}
{{- end -}}
{{- end }}
