{{/* Names and labels. */}}

{{/* What the names of all objects begin with. That of a Service is a DNS label, of 63 characters, without dots: 46 leave
     room for -workers-headless. */}}
{{- define "kinesin.fullname" -}}
{{- $full := .Values.fullnameOverride -}}
{{- if not $full -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full = ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- end -}}
{{- $full | replace "." "-" | trunc 46 | trimAll "-" -}}
{{- end -}}

{{- define "kinesin.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "kinesin.labels" -}}
{{ include "kinesin.selector" . }}
app.kubernetes.io/version: {{ default .Chart.AppVersion .Values.image.tag | trunc 63 | trimAll "-_." | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kinesin.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "kinesin.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "kinesin.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{/* The groups of pods, as JSON: name to roles. The one that fires has the same name in both layouts, so
     that a change of layout is a rollout of one fleet and not two fleets beside each other. */}}
{{- define "kinesin.groups" -}}
{{- if eq .Values.layout "split" -}}
{"scheduler": ["scheduler", "dispatcher"], "inbound": ["inbound"], "hsc": ["hsc"]}
{{- else -}}
{"scheduler": ["inbound", "scheduler", "dispatcher", "hsc"]}
{{- end -}}
{{- end -}}

{{/* Whether the chart says how many pods a group has. */}}
{{- define "kinesin.hasReplicas" -}}
{{- if and (hasKey . "replicas") (not (kindIs "invalid" .replicas)) -}}true{{- end -}}
{{- end -}}

{{/* Whether pods of these roles talk to the API server. */}}
{{- define "kinesin.watches" -}}
{{- if and (eq .root.Values.membership "kubernetes") (has "scheduler" .roles) -}}true{{- end -}}
{{- end -}}

{{/* Whether callers send to pods of these roles. */}}
{{- define "kinesin.called" -}}
{{- if or (has "inbound" .roles) (has "hsc" .roles) -}}true{{- end -}}
{{- end -}}

{{/* Seconds from the deletion of a pod until it is killed: what goes on as before, the hand-over of its
     partitions (8 s at most), the calls in flight, and a margin. */}}
{{- define "kinesin.graceSeconds" -}}
{{- $before := 0 -}}
{{- if include "kinesin.called" . -}}{{- $before = int .root.Values.preStopSeconds -}}{{- end -}}
{{- add $before 8 (int .root.Values.drainSeconds) 5 -}}
{{- end -}}

{{- define "kinesin.scheme" -}}
{{- ternary "HTTPS" "HTTP" .Values.tls.enabled -}}
{{- end -}}

{{/* Labels that Services choose pods by, of the roles among them. */}}
{{- define "kinesin.roleLabels" -}}
{{- range $i, $role := .roles -}}
{{- if $i }}
{{ end -}}
kinesin.io/{{ $role }}: "true"
{{- end -}}
{{- end -}}

{{/* What the external metrics of this release are chosen by in Prometheus. */}}
{{- define "kinesin.series" -}}
{{- default (printf "namespace=%q,service=%q" .Release.Namespace (printf "%s-metrics" (include "kinesin.fullname" .))) .Values.scheduler.autoscaling.keda.selector -}}
{{- end -}}
