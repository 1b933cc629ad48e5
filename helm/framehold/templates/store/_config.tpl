{{/* Nothing that was acknowledged is lost, and nothing is evicted: a record that is gone is a lost call. */}}
{{- define "framehold.store.config" -}}
port 6379
bind * -::*
dir /data
requirepass {{ .password }}
appendonly yes
appendfsync always
save ""
maxmemory {{ include "framehold.written" .root.Values.store.bundled.maxMemory }}
maxmemory-policy noeviction
{{ end }}
