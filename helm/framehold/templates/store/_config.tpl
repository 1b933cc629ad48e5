{{/* Nothing that was acknowledged is lost, and nothing is evicted: a record that is gone is a lost call. With an
outcome of more than 64 bytes a record would take twice the memory, were Redis not told that it is small still. */}}
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
hash-max-listpack-value 4096
{{ end }}
