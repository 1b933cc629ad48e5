{{/* Figures of alerts that follow settings, by alert: what stands in the file, and what belongs there with these settings. The file
     has those for the default ones, and its head says which they are. A record lives for a token, a round and a minute; the
     4 minutes more are the file's own. A histogram tells nothing between two of its bounds apart: two leases are taken for the
     next one. */}}
{{- define "framehold.alertFigures" -}}
{{- $node := .Values.node.settings -}}
{{- $lease := $node.leaseTtl | default 5 | float64 -}}
{{- $record := addf ($node.tokenTtl | default 600) ($node.maxRound | default 300) 60 -}}
{{- $minutes := divf (addf $record 240) 60 | ceil | int64 -}}
{{- $slow := 600.0 -}}
{{- range list 300.0 120.0 60.0 30.0 20.0 -}}{{ if ge . (mulf $lease 2) }}{{ $slow = . }}{{ end }}{{ end -}}
{{- if gt $lease 5.0 }}
FrameholdNodeHeartbeatStale:
  "> 15": {{ printf "> %v" (mulf $lease 3) | quote }}
  "for 15 s": {{ printf "for %v s" (mulf $lease 3) | quote }}
FrameholdFailoverSlow:
  "> 10": {{ printf "> %v" $slow | quote }}
  "up to 6 s": {{ printf "up to %v s" (addf $lease 1) | quote }}
{{- end }}
{{- if gt $minutes 20 }}
FrameholdLeaseOrphaned:
  "20m": {{ printf "%dm" $minutes | quote }}
  "for 20 minutes": {{ printf "for %d minutes" $minutes | quote }}
  "lives by default": "lives"
{{- end }}
{{- end }}
