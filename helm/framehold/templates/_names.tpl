{{/* Names, labels and images. Whatever takes a component takes `dict "root" $ "component" "node"`. */}}

{{- define "framehold.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{/* Short enough for what is put behind it: a Deployment's pods get 17 characters more than their component. */}}
{{- define "framehold.fullname" -}}
{{- $name := include "framehold.name" . -}}
{{- $full := .Values.fullnameOverride | default (contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name)) -}}
{{- $full | trunc 38 | trimSuffix "-" -}}
{{- end }}

{{- define "framehold.componentName" -}}
{{- printf "%s-%s" (include "framehold.fullname" .root) .component -}}
{{- end }}

{{/* What pods are chosen by; never changed, since a StatefulSet's can't be. Quoted: a release may be called 123, or true. */}}
{{- define "framehold.selector" -}}
app.kubernetes.io/name: {{ include "framehold.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Of an object: each name once. Its own `labels` count more than commonLabels; the schema refuses those that the chart must set. */}}
{{- define "framehold.labels" -}}
{{- $release := dict "app.kubernetes.io/managed-by" .root.Release.Service "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ := set $release "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63) -}}
{{- merge (include "framehold.podLabels" . | fromYaml) $release | toYaml -}}
{{- end }}

{{/* Of a pod: none that a new version of the chart alone would change, and with it every pod. */}}
{{- define "framehold.podLabels" -}}
{{- $own := include "framehold.selector" . | fromYaml -}}
{{- merge $own (.labels | default dict) (.root.Values.commonLabels | default dict) (dict "app.kubernetes.io/part-of" "framehold") | toYaml -}}
{{- end }}

{{/* The metadata of an object; `name`, `labels` and `annotations` may be given. */}}
{{- define "framehold.metadata" -}}
name: {{ .name | default (include "framehold.componentName" .) | quote }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "framehold.labels" . | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) (.root.Values.commonAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* `dict "root" $ "image" .Values.node.image`: a digest counts more than a tag. */}}
{{- define "framehold.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "framehold.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "framehold.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end }}

{{/* The Secret with keys and admin token; and that with the store's URL, or the bundled store's password. */}}
{{- define "framehold.authSecret" -}}
{{- .Values.auth.existingSecret | default (include "framehold.fullname" .) -}}
{{- end }}

{{- define "framehold.storeSecret" -}}
{{- .Values.store.existingSecret.name | default (printf "%s-store" (include "framehold.fullname" .)) -}}
{{- end }}

{{- define "framehold.storeKey" -}}
{{- if .Values.store.existingSecret.name -}}{{ .Values.store.existingSecret.key }}{{- else -}}url{{- end -}}
{{- end }}

{{/* "true" where the chart runs a store of its own. */}}
{{- define "framehold.bundledStore" -}}
{{- if not (or .Values.store.url .Values.store.existingSecret.name) }}true{{ end -}}
{{- end }}

{{/* Names under which clients reach the fleet, and operators its routers, comma-separated; any port, since a port-forward has one
     of its own. */}}
{{- define "framehold.allowedHosts" -}}
{{- $hosts := list "localhost" "127.0.0.1" "[::1]" -}}
{{- range $name := list (include "framehold.fullname" .) (include "framehold.componentName" (dict "root" . "component" "router")) }}
{{- $space := printf "%s.%s" $name $.Release.Namespace -}}
{{- $hosts = concat $hosts (list $name $space (printf "%s.svc" $space) (printf "%s.svc.%s" $space $.Values.clusterDomain)) -}}
{{- end -}}
{{- if .Values.ingress.enabled }}{{ $hosts = concat $hosts .Values.ingress.hosts }}{{ end -}}
{{- if .Values.httpRoute.enabled }}{{ $hosts = concat $hosts .Values.httpRoute.hostnames }}{{ end -}}
{{- $all := list -}}
{{- range $hosts }}{{ $all = concat $all (list . (printf "%s:*" .)) }}{{ end -}}
{{- concat $all .Values.allowedHosts | uniq | join "," -}}
{{- end }}

{{- define "framehold.allowedOrigins" -}}
{{- $hosts := list -}}
{{- if .Values.ingress.enabled }}{{ $hosts = concat $hosts .Values.ingress.hosts }}{{ end -}}
{{- if .Values.httpRoute.enabled }}{{ $hosts = concat $hosts .Values.httpRoute.hostnames }}{{ end -}}
{{- $all := list "http://localhost:*" "http://127.0.0.1:*" -}}
{{- range $hosts }}{{ $all = append $all (printf "https://%s" .) }}{{ end -}}
{{- concat $all .Values.allowedOrigins | uniq | join "," -}}
{{- end }}
