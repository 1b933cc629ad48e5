{{/* Nothing that was acknowledged is lost, and nothing is evicted: a record that is gone is a lost call. With an
outcome of more than 64 bytes a record would take twice the memory, were Redis not told that it is small still. */}}
{{- define "framehold.store.config" -}}
port 6379
bind * -::*
dir /data
{{ include "framehold.store.user" . }}
user default off
appendonly yes
appendfsync always
save ""
maxmemory {{ include "framehold.written" .root.Values.store.bundled.maxMemory }}
maxmemory-policy noeviction
hash-max-listpack-value 4096
{{ end }}

{{/* The one user, with the rights that docs/operating.md lists and INFO, by which routers say how full the store is. The server gets no
more of the password than its hash. */}}
{{- define "framehold.store.user" -}}
user framehold on #{{ sha256sum .password }} ~fh:* &fh:* +evalsha +script|load +scan +time +ping +hget +hmget +hgetall +hexists +hlen +hstrlen +hset +llen +lrange +rpush +strlen +get +mget +set +del +pexpireat +zadd +zrange +zcount +zremrangebyscore +xadd +xtrim +xrange +publish +subscribe +info +memory|usage
{{- end }}
