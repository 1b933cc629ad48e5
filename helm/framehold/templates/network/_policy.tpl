{{/* The Service that carries a path: `dict "root" $ "to" "admin"`; that of clients unless it says `admin`. */}}
{{- define "framehold.backend" -}}
{{- if eq (.to | default "clients") "admin" -}}
{{ include "framehold.componentName" (dict "root" .root "component" "router") }}
{{- else -}}
{{ include "framehold.fullname" .root }}
{{- end -}}
{{- end }}

{{/* Who may reach the pods of a component; all others may not. Where they go
     themselves is limited by `exits`, egress rules as Kubernetes has them, if there are any.

     `dict "root" $ "component" "node" "doors" (list DOOR ...)`, and a DOOR is `dict "port" 8080 "components" (list "router")
     "peers" .Values...`. To Kubernetes an empty `from` is everybody. Hence a door to which nobody comes is left out, and one
     for all says `"everybody" true`. */}}
{{- define "framehold.policy" -}}
{{- $root := .root -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "framehold.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "framehold.selector" . | nindent 6 }}
  policyTypes: [Ingress{{ if .exits }}, Egress{{ end }}]
  {{- with .exits }}
  egress:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ingress:{{ if not .doors }} []{{ end }}
    {{- range .doors }}
    {{- if or .everybody .components .peers }}
    - ports:
        - {protocol: TCP, port: {{ .port }}}
      {{- if not .everybody }}
      from:
        {{- with .components }}
        - podSelector:
            matchLabels:
              app.kubernetes.io/name: {{ include "framehold.name" $root | quote }}
              app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
            matchExpressions:
              - {key: app.kubernetes.io/component, operator: In, values: {{ toJson . }}}
        {{- end }}
        {{- with .peers }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
    {{- end }}
    {{- end }}
{{- end }}


{{/* Where the pods of each component may go, as lists of egress rules by component; {} where that is not limited. */}}
{{- define "framehold.exits" -}}
{{- $policy := .Values.networkPolicy -}}
{{- if (dig "egress" "enabled" false $policy) -}}
{{- $own := dict "app.kubernetes.io/name" (include "framehold.name" .) "app.kubernetes.io/instance" .Release.Name -}}
{{- /* OpenShift's DNS listens on 5353 behind its Service, and OVN-Kubernetes checks the port behind it. */ -}}
{{- $ports := list -}}
{{- range $port := list 53 5353 -}}{{ range $protocol := list "UDP" "TCP" -}}
{{- $ports = append $ports (dict "protocol" $protocol "port" $port) -}}
{{- end }}{{ end -}}
{{- $names := dict "ports" $ports -}}
{{- $pods := list (dict "podSelector" (dict "matchLabels" (merge (dict "app.kubernetes.io/component" "node") $own))) -}}
{{- $nodes := dict "to" $pods "ports" (list (dict "protocol" "TCP" "port" 8080)) -}}
{{- $adminPort := include "framehold.adminPortNumber" . | int -}}
{{- $admin := dict "to" $pods "ports" (list (dict "protocol" "TCP" "port" $adminPort)) -}}
{{- $fleet := list $names $nodes -}}
{{- $stores := $policy.egress.store | default list -}}
{{- if include "framehold.bundledStore" . -}}
{{- $store := dict "to" (list (dict "podSelector" (dict "matchLabels" (merge (dict "app.kubernetes.io/component" "store") $own)))) "ports" (list (dict "protocol" "TCP" "port" 6379)) -}}
{{- $stores = append $stores $store -}}
{{- end -}}
{{- /* What `helm test` calls: the front, and the routers' API. */ -}}
{{- $fronts := dict "key" "app.kubernetes.io/component" "operator" "In" "values" (list "router" "haproxy") -}}
{{- $asked := list -}}
{{- range list 8080 $adminPort | uniq }}{{ $asked = append $asked (dict "protocol" "TCP" "port" .) }}{{ end -}}
{{- $test := dict "to" (list (dict "podSelector" (dict "matchLabels" $own "matchExpressions" (list $fronts)))) "ports" $asked -}}
{{- dict "router" (concat $fleet (list $admin) $stores) "node" (concat $fleet $stores ($policy.egress.node | default list)) "haproxy" $fleet "test" (list $names $test) | toYaml -}}
{{- else -}}
{}
{{- end -}}
{{- end }}
