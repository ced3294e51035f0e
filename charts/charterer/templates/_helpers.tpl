{{/*
Names are fixed, not made from the release's name. Two operators in one cluster would rent for the same budgets; with
fixed names of cluster-wide objects, Helm refuses to install the second.
*/}}
{{- define "charterer.selectorLabels" -}}
app.kubernetes.io/name: charterer
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- define "charterer.labels" -}}
{{ include "charterer.selectorLabels" .component }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "charterer.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "charterer.serviceAccount" -}}
{{ .Values.serviceAccount.name | default "charterer" }}
{{- end }}

{{/* The operator as the subject of a binding. */}}
{{- define "charterer.subjects" -}}
- kind: ServiceAccount
  name: {{ include "charterer.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* The Secret with the certificate of the progress endpoint: cert-manager's, or the operator's own. */}}
{{- define "charterer.progressSecret" -}}
charterer-progress-{{ ternary "certificate" "tls" .Values.certManager.enabled }}
{{- end }}

{{/* Not empty where metrics are served: a ServiceMonitor needs them. */}}
{{- define "charterer.servesMetrics" -}}
{{- if or .Values.metrics.enabled .Values.serviceMonitor.enabled }}yes{{ end }}
{{- end }}

{{- define "charterer.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "charterer.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Where the record of costs is; empty where costs are not recorded. */}}
{{- define "charterer.costRecord" -}}
{{- if .Values.costRecord.volume.enabled }}
{{- if contains "://" .Values.costRecord.place }}
{{- fail "costRecord: place is a bucket and volume.enabled is true, and the record has one place: leave one of them out" }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (ne .Values.costRecord.volume.accessMode "ReadWriteMany") }}
{{- fail "costRecord.volume: with more than one replica set accessMode to ReadWriteMany, replicas to 1, or place to a bucket" }}
{{- end }}
{{- end }}
{{- .Values.costRecord.place | default (ternary "/var/lib/charterer/costs" "" .Values.costRecord.volume.enabled) }}
{{- end }}

{{/* Not empty where the operator has a volume that two pods on different nodes cannot have at once. */}}
{{- define "charterer.oneVolume" -}}
{{- if and .Values.costRecord.volume.enabled (ne .Values.costRecord.volume.accessMode "ReadWriteMany") }}yes{{ end }}
{{- end }}

{{/* The version in which the API server serves MutatingAdmissionPolicies; empty where it serves none. From 1.36 on each does:
helm lint, and helm template by default, know a version of Kubernetes and no kinds. */}}
{{- define "charterer.mutatingPolicies" -}}
{{- $served := .Capabilities.APIVersions }}
{{- if or (semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version) ($served.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") -}}
v1
{{- else if $served.Has "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy" -}}
v1beta1
{{- end }}
{{- end }}

{{/* That version where an admission policy writes who creates jobs; empty where none does. */}}
{{- define "charterer.users" -}}
{{- $asked := toString .Values.costRecord.users }}
{{- $version := include "charterer.mutatingPolicies" . }}
{{- if and (eq $asked "true") (not $version) }}
{{- fail "costRecord.users: this API server serves no MutatingAdmissionPolicy: set costRecord.users to auto or false, or see docs/support-matrix.md" }}
{{- end }}
{{- if ne $asked "false" }}{{ $version }}{{ end }}
{{- end }}

{{/* Rules that match objects of these kinds, of those that may be adopted, with these operations. */}}
{{- define "charterer.kindRules" -}}
{{- range list
  (dict "kind" "Job" "group" "batch" "version" "v1" "resource" "jobs")
  (dict "kind" "JobSet" "group" "jobset.x-k8s.io" "version" "v1alpha2" "resource" "jobsets")
  (dict "kind" "TrainJob" "group" "trainer.kubeflow.org" "version" "v1alpha1" "resource" "trainjobs")
  (dict "kind" "RayJob" "group" "ray.io" "version" "v1" "resource" "rayjobs")
}}
{{- if has .kind $.kinds }}
- apiGroups: [{{ .group }}]
  apiVersions: [{{ .version }}]
  operations: [{{ $.operations }}]
  resources: [{{ .resource }}]
{{- end }}
{{- end }}
{{- end }}

{{/* All kinds that may be adopted. */}}
{{- define "charterer.adoptable" -}}
Job JobSet TrainJob RayJob
{{- end }}

{{/* Not empty where the operator changes RayJobs: those that are adopted, or those that wait in a queue of Kueue. */}}
{{- define "charterer.rayJobs" -}}
{{- if or (has "RayJob" .Values.adoption.kinds) (and .Values.kueue.enabled (has "rayjobs.ray.io" .Values.kueue.owners)) }}yes{{ end }}
{{- end }}
