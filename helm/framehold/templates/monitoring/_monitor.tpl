{{/* How a Prometheus finds the processes of one kind: `dict "root" $ "kind" "PodMonitor" "component" "node" "port" "admin" "values"`. */}}
{{- define "framehold.monitor" -}}
{{- $monitor := .values -}}
---
apiVersion: monitoring.coreos.com/v1
kind: {{ .kind }}
metadata:
  {{- include "framehold.metadata" (merge (dict "labels" $monitor.labels) .) | nindent 2 }}
spec:
  # The Service's name becomes the label `job`: nodes and routers are jobs of their own.
  selector:
    matchLabels:
      {{- include "framehold.selector" . | nindent 6 }}
  {{ eq .kind "PodMonitor" | ternary "podMetricsEndpoints" "endpoints" }}:
    - port: {{ .port }}
      path: /metrics
      interval: {{ $monitor.interval }}
      # One that is slow to answer is still heard: that is when it is asked about.
      scrapeTimeout: {{ $monitor.interval }}
      # The label `node` of routers' metrics is the one that they speak of, whatever Prometheus would call so.
      honorLabels: true
      relabelings:
        # A pod's name, which is the node's, where an address would be: alerts name what the dashboard and `kubectl` name.
        - {sourceLabels: [__meta_kubernetes_pod_name], targetLabel: instance}
        {{- if eq .kind "PodMonitor" }}
        # As with a ServiceMonitor.
        - {targetLabel: job, replacement: {{ include "framehold.componentName" . | quote }}}
        {{- end }}
{{- end }}
