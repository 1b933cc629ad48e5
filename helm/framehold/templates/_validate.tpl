{{/*
What values.schema.json can't see: values that are right one by one, and wrong together.

A part prints a line for each fault: what is wrong; what to do. All of them are told at once. No line repeats a secret.
*/}}

{{- define "framehold.validate" -}}
{{- $faults := list -}}
{{- range list "names" "auth" "store" "node" "router" "haproxy" "front" "metrics" "egress" "test" -}}
{{- range include (printf "framehold.faults.%s" .) $ | splitList "\n" -}}
{{- with trim . }}{{ $faults = append $faults . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- with $faults -}}
{{- fail (printf "\nthese values can't be right, and nothing was rendered:\n- %s\n" (join "\n- " .)) -}}
{{- end -}}
{{- end }}

{{- define "framehold.faults.names" -}}
{{- $name := include "framehold.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) }}
objects would be called {{ quote $name }}, which no Service may be: a letter first, then small letters, digits and "-"; give the release another name, or set fullnameOverride
{{- end }}
{{- end }}

{{- define "framehold.faults.auth" -}}
{{- $auth := .Values.auth -}}
{{- range $at, $key := $auth.keys }}
{{- if regexMatch "[,\\s]" $key }}
auth.keys[{{ $at }}] has a comma or a blank in it; list each key by itself
{{- else if lt (len $key) 32 }}
auth.keys[{{ $at }}] is shorter than 32 bytes; make one with: framehold keys new
{{- end }}
{{- end }}
{{- if ne (len $auth.keys) (len (uniq $auth.keys)) }}
auth.keys has a key twice; leave each in once
{{- end }}
{{- $drawn := not $auth.keys }}
{{- range $name := list "adminToken" "readToken" }}
{{- $token := index $auth $name }}
{{- $key := index $auth (printf "%sKey" $name) }}
{{- $drawn = or $drawn (and $key (not $token)) }}
{{- if and $token (not (regexMatch "^[!-~]{16,}$" $token)) }}
auth.{{ $name }} is not 16 or more printable ASCII characters without a blank; make one with: framehold keys new
{{- end }}
{{- if and $token (not $key) }}
auth.{{ $name }} is given, and auth.{{ $name }}Key is empty, which means that there is none; leave one of them out
{{- end }}
{{- if eq $auth.keysKey $key }}
auth.keysKey and auth.{{ $name }}Key are both {{ quote $key }}; a Secret holds the two under keys of their own
{{- end }}
{{- end }}
{{- if and $auth.adminTokenKey (eq $auth.adminTokenKey $auth.readTokenKey) }}
auth.adminTokenKey and auth.readTokenKey are both {{ quote $auth.readTokenKey }}; who reads could act; a Secret holds the two under keys of their own
{{- end }}
{{- if and $auth.adminToken (eq $auth.adminToken $auth.readToken) }}
auth.adminToken and auth.readToken are the same; who reads could act; make another with: framehold keys new
{{- end }}
{{- if and $auth.existingSecret (or $auth.keys $auth.adminToken $auth.readToken) }}
auth.existingSecret is given, and auth.keys, auth.adminToken or auth.readToken beside it; put them into that Secret, or leave it out
{{- end }}
{{- if and .Values.gitops (not $auth.existingSecret) $drawn }}
gitops is true, and keys or a token would be made anew at each sync, which ends every parked call; make a Secret and name it in auth.existingSecret, or give auth.keys and each token that has a key
{{- end }}
{{- end }}

{{- define "framehold.faults.store" -}}
{{- $store := .Values.store -}}
{{- $tls := regexMatch "^(?i:rediss)(\\+[a-z]+)?://" $store.url -}}
{{- if include "framehold.bundledStore" . }}
{{- if .Values.gitops }}
gitops is true with the bundled store, whose password would be made anew at each sync; name a Secret with a store's URL in store.existingSecret.name
{{- end }}
{{- $size := $store.bundled.maxMemory | toString -}}
{{- $size = hasSuffix "b" (lower $size) | ternary (printf "%si" (lower $size | trimSuffix "b" | upper)) (upper $size) -}}
{{- with dig "limits" "memory" nil $store.bundled.resources }}
{{- if lt (include "framehold.bytes" . | int64) (include "framehold.bytes" $size | int64 | mul 2) }}
store.bundled.resources.limits.memory is {{ . }}, less than twice store.bundled.maxMemory ({{ $store.bundled.maxMemory }}), which is what the store may take while it rewrites its journal; raise the one, or lower the other
{{- end }}
{{- end }}
{{- end }}
{{- if and $store.url $store.existingSecret.name }}
store.url and store.existingSecret.name are both given; leave one of them out
{{- end }}
{{- if and $store.url (not (regexMatch "^(?i:rediss?)(\\+(?i:sentinel|cluster))?://." $store.url)) }}
store.url names no kind of store that pods can share; begin it with redis://, redis+sentinel:// or redis+cluster://, and with rediss in place of redis for TLS
{{- end }}
{{- if and (regexMatch "^(?i:rediss?\\+sentinel)://" $store.url) (not (regexMatch "^[a-zA-Z+]+://[^/?#]+/[^/?#]" $store.url)) }}
store.url names sentinels, and no service; end it with the name that they monitor: .../mymaster
{{- end }}
{{- if and $store.url $store.tls.caSecret }}
{{- if not $tls }}
store.tls.caSecret is given, and store.url speaks no TLS; begin it with rediss, or leave store.tls.caSecret out
{{- else if not (contains "ssl_ca_certs=" $store.url) }}
store.tls.caSecret is given, and store.url doesn't name the file; add ?ssl_ca_certs=/etc/framehold/store-tls/ca.crt
{{- end }}
{{- else if contains "ssl_ca_certs=/etc/framehold/store-tls/" $store.url }}
store.url names a file of store.tls.caSecret, which is not given; name the Secret that holds it there
{{- end }}
{{- end }}

{{- define "framehold.faults.node" -}}
{{- $node := .Values.node -}}
{{- $limit := dig "limits" "memory" nil $node.resources -}}
{{- $own := $node.settings.memoryLimit -}}
{{- if and $limit $own }}
{{- if gt (include "framehold.bytes" (include "framehold.quantity" $own) | int64) (include "framehold.bytes" $limit | int64) }}
node.settings.memoryLimit is {{ kindIs "string" $own | ternary $own (int64 $own) }}, above node.resources.limits.memory ({{ $limit }}): the kernel would kill the node before it makes room; lower the one, or raise the other
{{- end }}
{{- end }}
{{- $scaled := $node.autoscaling -}}
{{- $drain := $node.settings.drainTimeout -}}
{{- include "framehold.faults.pods" (dict "name" "node" "values" $node "own" (addf $drain 20) "why" (printf "drainTimeout %v s, and 20 s for effects that are under way" $drain)) }}
{{- if and $node.target $node.source }}
node.target and node.source are both given; leave one of them out
{{- end }}
{{- if not (or $node.target $node.source (hasSuffix "framehold/node" $node.image.repository)) }}
node.image.repository is {{ quote $node.image.repository }}, and nothing says what of it is served: it would be the booking example; name your server: node.target=server.py
{{- end }}
{{- if $scaled.enabled }}
{{- $metrics := list $scaled.memoryPercent $scaled.cpuPercent $scaled.parkedFrames | compact }}
{{- if and (eq $scaled.kind "HPA") (not $metrics) }}
node.autoscaling has nothing to scale by; give memoryPercent, cpuPercent or parkedFrames
{{- end }}
{{- if eq $scaled.kind "KEDA" }}
{{- if not $scaled.prometheusUrl }}
node.autoscaling.kind is KEDA without prometheusUrl; say where your Prometheus answers: http://prometheus.monitoring:9090
{{- end }}
{{- if not $scaled.parkedFrames }}
node.autoscaling.kind is KEDA without parkedFrames, which is what it asks Prometheus for; say how many a node shall hold
{{- end }}
{{- end }}
{{- range $resource, $percent := dict "memory" $scaled.memoryPercent "cpu" $scaled.cpuPercent }}
{{- if $percent }}
{{- include "framehold.faults.percent" (dict "name" "node" "resource" $resource "resources" $node.resources "remedy" (printf "give it, or set %sPercent to null" $resource)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "framehold.faults.router" -}}
{{- $router := .Values.router -}}
{{- include "framehold.faults.pods" (dict "name" "router" "values" $router "own" 15 "why" "15 s for what is under way") }}
{{- if $router.autoscaling.enabled }}
{{- include "framehold.faults.percent" (dict "name" "router" "resource" "cpu" "resources" $router.resources "remedy" "give it") }}
{{- end }}
{{- with dig "limits" "memory" nil $router.resources }}
{{- if le (include "framehold.bytes" . | int64) (int64 ($router.settings.maxBuffered | default 268435456)) }}
router.resources.limits.memory is {{ . }}, and bodies alone may take router.settings.maxBuffered ({{ int64 ($router.settings.maxBuffered | default 268435456) }} bytes); raise the one, or lower the other
{{- end }}
{{- end }}
{{- end }}

{{- define "framehold.faults.haproxy" -}}
{{- $proxy := .Values.haproxy -}}
{{- if $proxy.enabled }}
{{- include "framehold.faults.pods" (dict "name" "haproxy" "values" $proxy "own" 15 "why" "15 s for what is under way") }}
{{- $nodes := include "framehold.haproxy.nodes" . | int }}
{{- $most := include "framehold.haproxy.servers" . | int }}
{{- if gt $nodes $most }}
haproxy.enabled needs a line of configuration for each of the {{ $nodes }} nodes that there may be, and {{ $most }} are the most; lower node.replicas or node.autoscaling.maxReplicas, or let the routers carry calls
{{- end }}
{{- $needed := add (mul 2 (int64 $proxy.bufferBytes) (int64 $proxy.maxConnections)) 67108864 }}
{{- with dig "limits" "memory" nil $proxy.resources }}
{{- if lt (include "framehold.bytes" . | int64) $needed }}
haproxy.resources.limits.memory is {{ . }}, and {{ int64 $proxy.maxConnections }} connections with 2 buffers of {{ int64 $proxy.bufferBytes }} bytes each, with 64 MiB for the rest, take {{ divf $needed 1048576 | ceil | int64 }}Mi; raise it, or lower haproxy.maxConnections or haproxy.bufferBytes
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What nodes, routers and HAProxy have in common: `dict "name" "values" "own" "why"`, with the grace of the process itself and its reason. */}}
{{- define "framehold.faults.pods" -}}
{{- $name := .name -}}
{{- if and (eq .values.dnsPolicy "None") (not .values.dnsConfig) }}
{{ $name }}.dnsPolicy is None without {{ $name }}.dnsConfig, so that no name would be found; say which servers answer
{{- end }}
{{- $least := include "framehold.least" . | int64 -}}
{{- $sleep := include "framehold.preStop" .values | int64 -}}
{{- $why := gt $sleep 0 | ternary (printf "%d s of its preStop, and %s" $sleep .why) .why -}}
{{- with .values.terminationGracePeriodSeconds }}
{{- if lt (int64 .) $least }}
{{ $name }}.terminationGracePeriodSeconds is {{ int64 . }}, and an orderly end may take {{ $least }} ({{ $why }}); say {{ $least }} or more, or null
{{- end }}
{{- end }}
{{- if and .values.pdb.enabled (has (toString .values.pdb.maxUnavailable) (list "0" "0%")) }}
{{ $name }}.pdb.maxUnavailable is {{ .values.pdb.maxUnavailable }}: no machine could ever be drained; say 1 or more, or {{ $name }}.pdb.enabled=false
{{- end }}
{{- with .values.autoscaling }}
{{- if and .enabled (gt (int64 .minReplicas) (int64 .maxReplicas)) }}
{{ $name }}.autoscaling.minReplicas is {{ int64 .minReplicas }}, above maxReplicas ({{ int64 .maxReplicas }}); lower the one, or raise the other
{{- end }}
{{- end }}
{{- range .values.env }}
{{- if or (hasPrefix "FRAMEHOLD_" .name) (eq .name "POD_IP") }}
{{ $name }}.env sets {{ .name }}, which is the chart's to set, and Kubernetes wants each name once; say it under {{ $name }}.settings, settings, auth, store or allowedHosts
{{- end }}
{{- end }}
{{- end }}

{{/* A share of a request needs the request; Kubernetes takes the limit for one. */}}
{{- define "framehold.faults.percent" -}}
{{- if not (or (dig "requests" .resource nil .resources) (dig "limits" .resource nil .resources)) }}
{{ .name }}.autoscaling.{{ .resource }}Percent is a share of {{ .name }}.resources.requests.{{ .resource }}, which is missing; {{ .remedy }}
{{- end }}
{{- end }}

{{- define "framehold.faults.front" -}}
{{- $service := .Values.service -}}
{{- if and $service.nodePort (eq $service.type "ClusterIP") }}
service.nodePort is given, and service.type is ClusterIP; leave it out, or say NodePort or LoadBalancer
{{- end }}
{{- if and $service.loadBalancerSourceRanges (ne $service.type "LoadBalancer") }}
service.loadBalancerSourceRanges limits nobody with service.type {{ $service.type }}; say LoadBalancer, or use networkPolicy.clientsFrom
{{- end }}
{{- if and $service.loadBalancerClass (ne $service.type "LoadBalancer") }}
service.loadBalancerClass chooses nothing with service.type {{ $service.type }}; say LoadBalancer, or leave it out
{{- end }}
{{- if and $service.externalTrafficPolicy (eq $service.type "ClusterIP") }}
service.externalTrafficPolicy is given, and service.type is ClusterIP; leave it out, or say NodePort or LoadBalancer
{{- end }}
{{- $admin := int .Values.settings.adminPort }}
{{- if has $admin (list 8080 8404) }}
settings.adminPort is {{ $admin }}, which the pods use for something else; say another port, or 0 for one port that serves all
{{- else if and $admin (lt $admin 1024) }}
settings.adminPort is {{ $admin }}, which only root may open; say 1024 or more, or 0 for one port that serves all
{{- end }}
{{- $hosts := list }}
{{- if .Values.ingress.enabled }}
{{- $hosts = concat $hosts .Values.ingress.hosts }}
{{- if not .Values.ingress.hosts }}
ingress.enabled is true without ingress.hosts; name the hosts, since nodes answer to no other names
{{- end }}
{{- end }}
{{- if .Values.httpRoute.enabled }}
{{- $hosts = concat $hosts .Values.httpRoute.hostnames }}
{{- if not .Values.httpRoute.parentRefs }}
httpRoute.enabled is true without httpRoute.parentRefs; name the Gateway: - name: ...
{{- end }}
{{- if not (or .Values.httpRoute.hostnames .Values.allowedHosts) }}
httpRoute.enabled is true without httpRoute.hostnames; name the hosts, there or in allowedHosts, since nodes answer to no other names
{{- end }}
{{- end }}
{{- $paths := concat (.Values.ingress.enabled | ternary .Values.ingress.paths list) (.Values.httpRoute.enabled | ternary .Values.httpRoute.paths list) }}
{{- $policy := .Values.networkPolicy }}
{{- if and $admin $policy.enabled (not $policy.adminsFrom) (not $policy.scrapeFrom) }}
{{- range $paths }}
{{- if eq (.to | default "clients") "admin" }}
the path {{ .path }} leads to the routers' admin port, and the network policy lets nobody there; say where your ingress or gateway runs in networkPolicy.adminsFrom, or networkPolicy.enabled=false
{{- end }}
{{- end }}
{{- end }}
{{- range $hosts }}
{{- if and (contains "*" .) (not $.Values.allowedHosts) }}
{{ quote . }} is a pattern, and nodes compare whole names; list those that clients use in allowedHosts
{{- end }}
{{- end }}
{{- end }}

{{- define "framehold.faults.metrics" -}}
{{- $monitor := .Values.metrics.serviceMonitor -}}
{{- $scaled := .Values.node.autoscaling -}}
{{- if eq (toString .Values.settings.metrics) "false" }}
{{- $users := list }}
{{- if $monitor.enabled }}{{ $users = append $users "metrics.serviceMonitor" }}{{ end }}
{{- if .Values.metrics.podMonitor.enabled }}{{ $users = append $users "metrics.podMonitor" }}{{ end }}
{{- if .Values.metrics.prometheusRule.enabled }}{{ $users = append $users "metrics.prometheusRule" }}{{ end }}
{{- if .Values.metrics.dashboards.enabled }}{{ $users = append $users "metrics.dashboards" }}{{ end }}
{{- if and $scaled.enabled $scaled.parkedFrames }}{{ $users = append $users "node.autoscaling.parkedFrames" }}{{ end }}
{{- with $users }}
settings.metrics is false, and {{ join ", " . }} would find nothing; say true, or leave those out
{{- end }}
{{- end }}
{{- $pods := .Values.metrics.podMonitor -}}
{{- if and $monitor.enabled $pods.enabled }}
metrics.serviceMonitor.enabled and metrics.podMonitor.enabled are both true, and each process would be counted twice; leave one of them out
{{- end }}
{{- range $name, $monitor := dict "serviceMonitor" $monitor "podMonitor" $pods }}
{{- if $monitor.enabled }}
{{- if and $.Values.networkPolicy.enabled (not $.Values.networkPolicy.scrapeFrom) }}
metrics.{{ $name }}.enabled is true, and the network policy lets nobody scrape nodes; say where your Prometheus runs in networkPolicy.scrapeFrom, or networkPolicy.enabled=false
{{- end }}
{{- $milliseconds := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 }}
{{- if gt (mul (regexFind "^[0-9]+" $monitor.interval | int64) (get $milliseconds (regexFind "[a-z]+$" $monitor.interval))) 30000 }}
metrics.{{ $name }}.interval is {{ $monitor.interval }}, and the alerts count on 30s at most; lower it
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "framehold.faults.egress" -}}
{{- $policy := .Values.networkPolicy -}}
{{- if dig "egress" "enabled" false $policy }}
{{- if not $policy.enabled }}
networkPolicy.egress.enabled is true, and networkPolicy.enabled is false, so that nothing is limited; say true there too, or leave it out
{{- end }}
{{- if and (not $policy.egress.store) (not (include "framehold.bundledStore" .)) }}
networkPolicy.egress.enabled is true with a store of your own, which no pod would reach; say where it is in networkPolicy.egress.store
{{- end }}
{{- end }}
{{- end }}

{{- define "framehold.faults.test" -}}
{{- if and (not .Values.test.tool) (or .Values.test.arguments .Values.test.answers) }}
test.arguments or test.answers is given without test.tool; name the tool that they are for
{{- end }}
{{- end }}

{{/* A size as a process takes it (512mb, 2 GiB, a number), as Kubernetes writes it. */}}
{{- define "framehold.quantity" -}}
{{- $text := kindIs "string" . | ternary . (float64 . | printf "%.0f") | upper -}}
{{- regexFind "^[0-9.]+" $text }}{{ regexFind "[KMGT]I?" $text | replace "I" "i" -}}
{{- end }}

{{/* A quantity as Kubernetes writes it (1536Mi, 1G, a number), in whole bytes. */}}
{{- define "framehold.bytes" -}}
{{- $text := kindIs "string" . | ternary . (printf "%.0f" (float64 .)) -}}
{{- $unit := regexFind "[A-Za-z]*$" $text -}}
{{- $factors := dict "" 1 "m" 0.001 "k" 1e3 "K" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- mulf (trimSuffix $unit $text | float64) (get $factors $unit) | int64 -}}
{{- end }}
