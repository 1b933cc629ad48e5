{{/* What all pods have in common. */}}

{{/* Of a pod: who it is, and where it may run. `dict "root" $ "component" "node" "values" .Values.node`. A null of values.yaml
     may be kept or left out, as Helm pleases: what there are several of is spread by its name, not by the key. */}}
{{- define "framehold.pod" -}}
serviceAccountName: {{ include "framehold.serviceAccountName" .root | quote }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "framehold.over" (dict "ours" .root.Values.podSecurityContext "theirs" .values.podSecurityContext) | fromYaml }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $field := list "priorityClassName" "schedulerName" "runtimeClassName" "dnsPolicy" }}
{{- with get $.values $field }}
{{ $field }}: {{ . | quote }}
{{- end }}
{{- end }}
{{- range $field := list "dnsConfig" "hostAliases" }}
{{- with get $.values $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $several := has .component (list "node" "router" "haproxy") }}
{{- /* Zones are no spread constraint: where machines have no label of a zone, the scheduler would leave out all constraints. */}}
{{- $apart := dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict
      "weight" 100
      "podAffinityTerm" (dict
        "topologyKey" "topology.kubernetes.io/zone"
        "labelSelector" (dict "matchLabels" (include "framehold.selector" . | fromYaml)))))) }}
{{- with .values.affinity | default ($several | ternary $apart dict) }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $several }}
{{- if kindIs "invalid" .values.topologySpreadConstraints }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "framehold.selector" . | nindent 8 }}
    {{- /* A Deployment's new pods start beside the old ones: if these counted, all new ones would go to the machine that had none. */}}
    {{- if ne .component "node" }}
    matchLabelKeys: [pod-template-hash]
    {{- end }}
{{- else }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Metadata of a pod: `annotations` are those that make it new when what it reads has changed. */}}
{{- define "framehold.podMetadata" -}}
labels:
  {{- include "framehold.podLabels" (merge (dict "labels" .values.podLabels) .) | nindent 2 }}
{{- with merge (dict) (.values.podAnnotations | default dict) (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Fields of the installation over those of the chart, without those that are null: `dict "ours" ... "theirs" ...`. */}}
{{- define "framehold.over" -}}
{{- $all := mergeOverwrite (deepCopy (.ours | default dict)) (.theirs | default dict) -}}
{{- range $field, $value := $all }}{{ if kindIs "invalid" $value }}{{ $_ := unset $all $field }}{{ end }}{{ end -}}
{{- toYaml $all -}}
{{- end }}

{{/* Of a container: `dict "root" $ "values" .Values.node`. */}}
{{- define "framehold.containerSecurity" -}}
{{- include "framehold.over" (dict "ours" .root.Values.securityContext "theirs" (.values | default dict).securityContext) -}}
{{- end }}

{{/* The port that serves probes and metrics of routers and nodes: its name, and its number. */}}
{{- define "framehold.adminPort" -}}
{{- ne (int .Values.settings.adminPort) 0 | ternary "admin" "http" -}}
{{- end }}

{{- define "framehold.adminPortNumber" -}}
{{- .Values.settings.adminPort | int | default 8080 -}}
{{- end }}

{{- define "framehold.ports" -}}
- {name: http, containerPort: 8080}
{{- with .Values.settings.adminPort | int }}
- {name: admin, containerPort: {{ . }}}
{{- end }}
{{- end }}

{{/* The hooks of a container: those of the installation, and before its end a sleep, unless they have another preStop. */}}
{{- define "framehold.lifecycle" -}}
{{- $hooks := deepCopy (.lifecycle | default dict) -}}
{{- if and .preStopSeconds (not (get $hooks "preStop")) -}}
{{- $_ := set $hooks "preStop" (dict "exec" (dict "command" (list "sleep" (toString .preStopSeconds)))) -}}
{{- end -}}
{{- with $hooks -}}
lifecycle:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}

{{/* Who changes pods, and how fast: `dict "field" "strategy" "ours" ... "values" .Values.router`. */}}
{{- define "framehold.updates" -}}
{{- $theirs := .values.updateStrategy | default dict }}
{{- /* What is ours belongs to a RollingUpdate. */}}
{{- $ours := eq (get $theirs "type" | default "RollingUpdate") "RollingUpdate" | ternary .ours dict }}
{{ .field }}:
  {{- include "framehold.over" (dict "ours" $ours "theirs" $theirs) | nindent 2 }}
{{- with .values.minReadySeconds | int }}
minReadySeconds: {{ . }}
{{- end }}
{{- end }}

{{/*
The three probes, of the port `port`. Ready: takes new calls. Alive: the event loop answers, whatever the store and a drain do.
`misses`: answers that may be wanting before it is not ready; several, since a busy moment of all routers would else close the front.
*/}}
{{- define "framehold.probes" -}}
{{- $healthy := dict "httpGet" (dict "path" "/healthz" "port" .port) -}}
{{- $ready := dict "httpGet" (dict "path" "/readyz" "port" .port) -}}
{{- $startup := merge (dict "periodSeconds" 2 "failureThreshold" (divf .startupSeconds 2 | ceil | int)) $healthy -}}
{{- $readiness := merge (dict "periodSeconds" 2 "timeoutSeconds" 2 "failureThreshold" (.misses | default 3)) $ready -}}
{{- /* A process whose loop has not answered for half a minute can't drain either. */ -}}
{{- $liveness := merge (dict "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 3 "terminationGracePeriodSeconds" 5) $healthy -}}
startupProbe:
  {{- include "framehold.over" (dict "ours" $startup "theirs" .startupProbe) | nindent 2 }}
readinessProbe:
  {{- include "framehold.over" (dict "ours" $readiness "theirs" .readinessProbe) | nindent 2 }}
livenessProbe:
  {{- include "framehold.over" (dict "ours" $liveness "theirs" .livenessProbe) | nindent 2 }}
{{- end }}

{{/* A container that derives from the fleet's keys what the pod's own container gets in their place. It alone has the keys; what it
     derives is in a volume in memory. `dict "root" $ "component" "router" "values" .Values.router "script" ...`. */}}
{{- define "framehold.derive" -}}
- name: keys
  image: {{ include "framehold.image" (dict "root" .root "image" .root.Values.router.image) | quote }}
  imagePullPolicy: {{ .root.Values.router.image.pullPolicy }}
  command:
    - sh
    - -ec
    - |
      umask 077
      {{- .script | nindent 6 }}
  env:
    {{- include "framehold.env.keys" .root | nindent 4 }}
  securityContext:
    {{- include "framehold.containerSecurity" . | nindent 4 }}
  resources:
    {{- toYaml .values.resources | nindent 4 }}
  volumeMounts:
    - {name: tmp, mountPath: /tmp}
    - {name: derived, mountPath: /run/framehold}
    {{- if .root.Values.auth.asFiles }}
    - {name: keys, mountPath: /etc/framehold/secrets, readOnly: true}
    {{- end }}
{{- end }}

{{- define "framehold.derivedVolumes" -}}
- name: derived
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- include "framehold.secretsVolume" (dict "root" . "name" "keys" "holds" (list "keys")) }}
{{- end }}

{{/* The volume of secrets, where processes read them from files: `dict "root" $ "holds" (list "keys" "adminToken" "readToken" "store")`. A file is
     called as its setting. A Secret without items would bring all that it has. */}}
{{- define "framehold.secretsVolume" -}}
{{- $auth := .root.Values.auth -}}
{{- $items := list -}}
{{- range $name := without .holds "store" -}}
{{- with index $auth (printf "%sKey" $name) -}}
{{- $items = append $items (dict "key" . "path" (printf "FRAMEHOLD_%s" ($name | snakecase | upper))) -}}
{{- end -}}
{{- end -}}
{{- if $auth.asFiles }}
- name: {{ .name | default "secrets" }}
  projected:
    defaultMode: 288
    sources:
      {{- with $items }}
      - secret:
          name: {{ include "framehold.authSecret" $.root | quote }}
          items:
            {{- range . }}
            - {key: {{ .key | quote }}, path: {{ .path }}}
            {{- end }}
      {{- end }}
      {{- if has "store" .holds }}
      - secret:
          name: {{ include "framehold.storeSecret" .root | quote }}
          items:
            - {key: {{ include "framehold.storeKey" .root | quote }}, path: FRAMEHOLD_STORE_URL}
      {{- end }}
{{- end }}
{{- end }}

{{- define "framehold.secretsMount" -}}
{{- if .Values.auth.asFiles }}
- {name: secrets, mountPath: /etc/framehold/secrets, readOnly: true}
{{- end }}
{{- end }}

{{/* Where the authority of the store's certificate is found, if there is one. */}}
{{- define "framehold.storeTlsVolume" -}}
{{- with .Values.store.tls.caSecret }}
- name: store-tls
  secret:
    secretName: {{ . | quote }}
    items:
      - {key: {{ $.Values.store.tls.caKey | quote }}, path: ca.crt}
{{- end }}
{{- end }}

{{- define "framehold.storeTlsMount" -}}
{{- if .Values.store.tls.caSecret }}
- {name: store-tls, mountPath: /etc/framehold/store-tls, readOnly: true}
{{- end }}
{{- end }}

{{/* Pods are made anew when what they read of Secrets has changed, as far as this can be seen from here. */}}
{{- define "framehold.checksums" -}}
checksum/auth: {{ pick (include "framehold.auth.data" . | fromYaml) .Values.auth.keysKey .Values.auth.adminTokenKey .Values.auth.readTokenKey | toJson | sha256sum }}
checksum/store: {{ pick (include "framehold.store.data" . | fromYaml) (include "framehold.storeKey" .) | toJson | sha256sum }}
{{- end }}

{{/* Seconds from the order to end until a process is killed: what was said, or the least that its end may take. */}}
{{/* Seconds that a pod's preStop sleeps: the chart's, or those of a hook in its place. What a hook's command takes is not known. */}}
{{- define "framehold.preStop" -}}
{{- dig "preStop" "sleep" "seconds" (.preStopSeconds | default 0) (.lifecycle | default dict) | int64 -}}
{{- end }}

{{/*
The least grace of a pod: `dict "own" 15 "values" .Values.router`, with the seconds that its own process may take. Kubernetes counts
the time of a preStop among it.
*/}}
{{- define "framehold.least" -}}
{{- addf .own (include "framehold.preStop" .values | float64) | ceil -}}
{{- end }}

{{- define "framehold.grace" -}}
{{- kindIs "invalid" .said | ternary .least .said | int64 -}}
{{- end }}

{{/*
How many pods. Where a scaler decides, it is as many as there are, and at first its least: Kubernetes takes a number that is said
no longer for 1, as in a rollback to a revision without one. What renders without a look (`gitops`) says none: each sync would set
it. `dict "root" $ "kind" "StatefulSet" "component" "node" "values" .Values.node`.
*/}}
{{- define "framehold.replicas" -}}
{{- $there := lookup "apps/v1" .kind .root.Release.Namespace (include "framehold.componentName" .) -}}
{{- if not .values.autoscaling.enabled -}}
replicas: {{ .values.replicas }}
{{- else if $there -}}
replicas: {{ $there.spec.replicas }}
{{- else if not .root.Values.gitops -}}
replicas: {{ .values.autoscaling.minReplicas | int64 }}
{{- end -}}
{{- end }}
