{{/* HAProxy's configuration. How calls find their nodes is said in examples/haproxy.cfg alike, with its reasons. */}}

{{/* As many servers as there may be nodes; those whose names nobody has are passed over. More than these are refused, but only after this was rendered. */}}
{{- define "framehold.haproxy.servers" -}}
{{- min (include "framehold.haproxy.nodes" . | int) 1000 -}}
{{- end }}

{{- define "framehold.haproxy.nodes" -}}
{{- $node := .Values.node -}}
{{- $node.autoscaling.enabled | ternary (max $node.replicas $node.autoscaling.maxReplicas) $node.replicas | int -}}
{{- end }}

{{- define "framehold.haproxy.grace" -}}
{{- include "framehold.grace" (dict "said" .Values.haproxy.terminationGracePeriodSeconds "least" (include "framehold.least" (dict "own" 15 "values" .Values.haproxy) | int64)) -}}
{{- end }}

{{/* Alive: it answers. Ready: some node takes requests. */}}
{{- define "framehold.haproxy.health" -}}
http-request return status 200 content-type text/plain string "ok\n" if { path /healthz }
http-request return status 503 content-type text/plain string "not ready: no node takes requests\n" if { path /readyz } { nbsrv(nodes) lt 1 }
http-request return status 200 content-type text/plain string "ready\n" if { path /readyz }
{{- end }}

{{/* What its own container reads first. */}}
{{- define "framehold.haproxy.secret" -}}
secret=$(framehold keys plane)
printf 'global\n    setenv FRAMEHOLD_SECRET %s\n' "$secret" > /run/framehold/secret.cfg
{{- end }}

{{- define "framehold.haproxy.config" -}}
{{- $here := .Values.haproxy -}}
{{- $six := eq .Values.ipFamily "IPv6" -}}
{{- $any := $six | ternary "[::]" "" -}}
{{- $domain := printf "%s.svc.%s" .Release.Namespace .Values.clusterDomain -}}
{{- $node := include "framehold.componentName" (dict "root" . "component" "node") -}}
global
    # Probes and Prometheus get in where clients have taken all connections that there are for them.
    maxconn {{ add $here.maxConnections 100 }}
    tune.bufsize {{ $here.bufferBytes | int64 }}
    # Told to end: who asks something is answered, and told to leave; idle connections are closed bit by bit, since a
    # request may be on its way. What runs longer than the last time is cut; else it would be cut by SIGKILL.
    close-spread-time 5s
    hard-stop-after {{ sub (include "framehold.haproxy.grace" . | int64) (include "framehold.preStop" $here | int64 | add 5) }}s
    # Nodes that come and go; never a request.
    log stdout format raw local0 notice

resolvers cluster
    parse-resolv-conf
    # A name that is gone is a node that is gone; a DNS server that is gone says nothing of nodes.
    hold nx 2s
    hold other 1h
    hold refused 1h
    hold timeout 1h

defaults
    mode http
    option http-buffer-request
    option forwardfor
    timeout http-request 10s
    timeout http-keep-alive 75s
    timeout connect 1s
    timeout server 60s
    timeout client 60s
    http-error status 503 content-type application/json string '{"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": "no node takes requests now; send the same request again"}}' hdr retry-after 1
    default-server resolvers cluster resolve-prefer {{ $six | ternary "ipv6" "ipv4" }} resolve-opts allow-dup-ip init-addr none

frontend mcp
    bind {{ $any }}:8080
    maxconn {{ $here.maxConnections | int64 }}
    http-request deny deny_status 501 if METH_CONNECT
    http-request deny deny_status 400 if { req.fhdr(transfer-encoding) -m found } !{ req.fhdr(transfer-encoding) -m str -i chunked }
    http-request del-header framehold- -m beg
    http-request del-header connection
    http-request set-header connection upgrade if { req.hdr(upgrade) -m found }
    http-request del-header x-real-ip
    http-request del-header forwarded
    {{- include "framehold.haproxy.health" . | nindent 4 }}
    http-request return status 404 if { path,url_dec -m str /admin } || { path,url_dec -m beg /admin/ }
    # The routers' own Service has them.
    http-request return status 404 if { path,url_dec -m str /dashboard /metrics /api/v1 } || { path,url_dec -m beg /dashboard/ /api/v1/ }
    default_backend nodes

backend nodes
    log global
    http-request set-var(txn.call) req.body,json_query('$.params.requestState'),field(2,.)
    {{- if .Values.settings.sagas }}
    http-request set-var(txn.call) req.body,json_query('$.params.sagaToken'),field(2,.) unless { var(txn.call) -m found }
    {{- end }}
    http-request set-header framehold-call-id %[uuid()] unless { var(txn.call) -m len 22:36 }
    http-request disable-l7-retry if { req.hdr(framehold-call-id) -m found }
    http-request set-var(txn.call) req.hdr(framehold-call-id) if { req.hdr(framehold-call-id) -m found }
    http-request set-var(txn.time) date
    http-request set-var-fmt(txn.asked) "framehold plane 1\n%[method]\n%[path]\n%[req.hdr(framehold-call-id)]\n%[var(txn.time)]"
    http-request set-header framehold-proof v1p.client.%[var(txn.time)].%[var(txn.asked),hmac(sha256,"${FRAMEHOLD_SECRET}"),hex]
    use-server %[req.hdr(mcp-session-id),field(2,.)] if { req.hdr(mcp-session-id) -m beg l1. }
    balance hash var(txn.call)
    hash-type consistent
    option redispatch 1
    retries 3
    retry-on conn-failure empty-response
    option httpchk
    http-check set-var(check.nonce) uuid(),hmac(sha256,"${FRAMEHOLD_SECRET}"),hex
    http-check set-var-fmt(check.wanted) "framehold node 1\n%[var(check.nonce)]\n%[srv_name]"
    http-check set-var(check.proof) var(check.wanted),hmac(sha256,"${FRAMEHOLD_SECRET}"),hex
    http-check send meth GET uri-lf "/readyz?nonce=%[var(check.nonce)]"
    http-check expect hdr name framehold-proof value-lf "%[var(check.proof)]"
    http-check expect status 200 error-status L7OKC
    default-server weight 100
    default-server check inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
    {{- range $number := until (include "framehold.haproxy.servers" . | int) }}
    server {{ $node }}-{{ $number }} {{ $node }}-{{ $number }}.{{ $node }}.{{ $domain }}:8080
    {{- end }}

frontend metrics
    bind {{ $any }}:8404
    {{- include "framehold.haproxy.health" . | nindent 4 }}
    http-request use-service prometheus-exporter if { path /metrics }
    http-request return status 404
{{- end }}
