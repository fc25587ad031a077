{{/* The labels of an object. Call it with a dict of `root`, and `component` if the object belongs to one. */}}
{{- define "delaybridge.labels" -}}
{{ include "delaybridge.selector" . }}
app.kubernetes.io/part-of: delaybridge
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* The labels that select pods. */}}
{{- define "delaybridge.selector" -}}
app.kubernetes.io/name: delaybridge
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "delaybridge.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ with .tag }}:{{ . }}{{ end }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end }}

{{/* What every pod has: no rights at Kubernetes, no root. */}}
{{- define "delaybridge.pod" -}}
automountServiceAccountToken: false
# Kubernetes would set variables BRIDGE_… for a Service whose name begins with `bridge`.
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{/* What every container has: a root that it can't write. */}}
{{- define "delaybridge.container" -}}
image: {{ include "delaybridge.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - name: secrets
    mountPath: {{ .Values.settings.BRIDGE_SECRETS_DIR }}
    readOnly: true
  - name: tmp
    mountPath: /tmp
{{- end }}

{{/* The volumes of a pod. Call it with the name of the Secret. */}}
{{- define "delaybridge.volumes" -}}
# Files named as settings in lower case, such as bridge_amqp_url: BRIDGE_SECRETS_DIR reads them.
- name: secrets
  secret:
    secretName: {{ . }}
    defaultMode: 0440
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- end }}
