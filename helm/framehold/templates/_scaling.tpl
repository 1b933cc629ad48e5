{{/* How many pods there are, and how few at once may go. */}}

{{/* What a drain of machines may take: `dict "root" $ "component" "node" "values" .Values.node`. Who isn't ready counts as taken:
     while the store is away no node is ready, and none is taken from what it holds. */}}
{{- define "framehold.pdb" -}}
{{- if .values.pdb.enabled -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "framehold.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ .values.pdb.maxUnavailable | toJson }}
  {{- with .values.pdb.unhealthyPodEvictionPolicy }}
  unhealthyPodEvictionPolicy: {{ . }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "framehold.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* A new pod first, and none taken before that is ready. */}}
{{- define "framehold.surge" -}}
type: RollingUpdate
rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
{{- end }}

{{/* At once out; in, one node in `seconds`, and only where all that time fewer would have done: each drain ends calls or hands
     them off, and a handed-off call costs a replay. */}}
{{- define "framehold.scalingBehavior" -}}
scaleUp:
  stabilizationWindowSeconds: 0
scaleDown:
  stabilizationWindowSeconds: {{ int64 . }}
  policies:
    - {type: Pods, value: 1, periodSeconds: {{ int64 . }}}
{{- end }}

{{/* A metric of an HPA: `dict "resource" "cpu" "percent" 80 "container" "node"`, of what that container requests: of the whole pod
     there would be none as soon as one beside it, like a mesh's, requests nothing. */}}
{{- define "framehold.resourceMetric" -}}
- type: ContainerResource
  containerResource:
    name: {{ .resource }}
    container: {{ .container }}
    target: {type: Utilization, averageUtilization: {{ int64 .percent }}}
{{- end }}
