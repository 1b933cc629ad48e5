{{/* Who may reach the pods of a component; all others may not. Where they go themselves is not limited.

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
  policyTypes: [Ingress]
  ingress:
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
