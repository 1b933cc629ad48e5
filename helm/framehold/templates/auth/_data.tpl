{{/*
What the Secrets hold, as YAML of data in base64. Said: taken from the values. Else found in the cluster, so that an
upgrade keeps it; else drawn. What was drawn is kept in .Values, for whoever asks again within this rendering.
*/}}

{{- define "framehold.found" -}}
{{- (lookup "v1" "Secret" .root.Release.Namespace .name).data | default dict | toYaml -}}
{{- end }}

{{/* The same of a Secret of the installation's own: `dict "root" $ "name" ... "component" "auth" "value" "auth.existingSecret"`. One
     that this release has made is none: Helm takes away what a release makes no longer. */}}
{{- define "framehold.lent" -}}
{{- $labels := dig "metadata" "labels" dict (lookup "v1" "Secret" .root.Release.Namespace .name) -}}
{{- if and (eq (get $labels "app.kubernetes.io/component") .component) (eq (get $labels "app.kubernetes.io/instance") .root.Release.Name) -}}
{{- fail (printf "%s is %s, which this release has made itself, and would now take away; nothing was changed; copy that Secret under another name, and say that one" .value .name) -}}
{{- end -}}
{{ include "framehold.found" . }}
{{- end }}

{{- define "framehold.auth.data" -}}
{{- if .Values.auth.existingSecret -}}
{{ include "framehold.lent" (dict "root" . "name" .Values.auth.existingSecret "component" "auth" "value" "auth.existingSecret") }}
{{- else -}}
{{- if not (hasKey .Values.auth "drawn") -}}
{{- $name := include "framehold.fullname" . -}}
{{- $found := include "framehold.found" (dict "root" . "name" $name) | fromYaml -}}
{{- $keys := .Values.auth.keys | join "," | b64enc | default (get $found .Values.auth.keysKey) -}}
{{- if and .Release.IsUpgrade (not $keys) -}}
{{- fail (printf "the Secret %s/%s with this fleet's keys is not there: new ones would end every parked call, and nothing was changed; put the Secret back, or say auth.keys or auth.existingSecret; if no node of this release ever ran, uninstall it first; if this was only to show what would be done, let it look into the cluster (--dry-run=server)" .Release.Namespace $name) -}}
{{- end -}}
{{- $drawn := dict .Values.auth.keysKey ($keys | default (randAlphaNum 64 | b64enc)) -}}
{{- range $name := list "adminToken" "readToken" -}}
{{- with index $.Values.auth (printf "%sKey" $name) -}}
{{- $_ := set $drawn . (index $.Values.auth $name | b64enc | default (get $found .) | default (randAlphaNum 40 | b64enc)) -}}
{{- end -}}
{{- end -}}
{{- $_ := set .Values.auth "drawn" $drawn -}}
{{- end -}}
{{ toYaml .Values.auth.drawn }}
{{- end -}}
{{- end }}

{{- define "framehold.store.data" -}}
{{- if .Values.store.existingSecret.name -}}
{{ include "framehold.lent" (dict "root" . "name" .Values.store.existingSecret.name "component" "store" "value" "store.existingSecret.name") }}
{{- else if .Values.store.url -}}
url: {{ .Values.store.url | b64enc }}
{{- else -}}
{{- if not (hasKey .Values.store "drawn") -}}
{{- $name := include "framehold.storeSecret" . -}}
{{- $found := include "framehold.found" (dict "root" . "name" $name) | fromYaml -}}
{{- $password := get $found "password" | b64dec | default (randAlphaNum 40) -}}
{{- $drawn := dict "password" $password "url" (printf "redis://framehold:%s@%s:6379/0" $password (include "framehold.componentName" (dict "root" . "component" "store"))) "valkey.conf" (include "framehold.store.config" (dict "root" . "password" $password)) -}}
{{- $encoded := dict -}}
{{- range $key, $value := $drawn }}{{ $_ := set $encoded $key ($value | b64enc) }}{{ end -}}
{{- $_ := set .Values.store "drawn" $encoded -}}
{{- end -}}
{{ toYaml .Values.store.drawn }}
{{- end -}}
{{- end }}
