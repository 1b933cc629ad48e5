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
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if has .component (list "node" "router" "haproxy") }}
{{- if kindIs "invalid" .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "framehold.selector" $ | nindent 8 }}
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

{{- define "framehold.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/*
The three probes, of the port `http` unless `port` is given. Ready: takes new calls. Alive: the event loop answers, whatever the store and a drain do.
`misses`: answers that may be wanting before it is not ready; several, since a busy moment of all routers would else close the front.
*/}}
{{- define "framehold.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ .port | default "http" }}}
  periodSeconds: 2
  failureThreshold: {{ divf .startupSeconds 2 | ceil | int }}
readinessProbe:
  httpGet: {path: /readyz, port: {{ .port | default "http" }}}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: {{ .misses | default 3 }}
livenessProbe:
  httpGet: {path: /healthz, port: {{ .port | default "http" }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
  # A process whose loop has not answered for half a minute can't drain either.
  terminationGracePeriodSeconds: 5
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
checksum/auth: {{ pick (include "framehold.auth.data" . | fromYaml) .Values.auth.keysKey .Values.auth.adminTokenKey | toJson | sha256sum }}
checksum/store: {{ pick (include "framehold.store.data" . | fromYaml) (include "framehold.storeKey" .) | toJson | sha256sum }}
{{- end }}

{{/* Seconds from the order to end until a process is killed: what was said, or the least that its end may take. */}}
{{- define "framehold.grace" -}}
{{- kindIs "invalid" .said | ternary .least .said | int64 -}}
{{- end }}

{{/*
How many pods. Where a scaler decides, it is as many as there are: Kubernetes takes a number that is said no longer for 1,
which would end a fleet's nodes when autoscaling is turned on. `dict "root" $ "kind" "StatefulSet" "component" "node" "values" .Values.node`.
*/}}
{{- define "framehold.replicas" -}}
{{- if not .values.autoscaling.enabled -}}
replicas: {{ .values.replicas }}
{{- else -}}
{{- with (lookup "apps/v1" .kind .root.Release.Namespace (include "framehold.componentName" .)).spec -}}
replicas: {{ .replicas }}
{{- end -}}
{{- end -}}
{{- end }}
