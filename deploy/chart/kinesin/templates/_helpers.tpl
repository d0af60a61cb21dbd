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
{"scheduler": ["scheduler", "dispatcher"], "inbound": ["inbound"], "hsc": ["hsc", "targets"]}
{{- else -}}
{"scheduler": ["inbound", "scheduler", "dispatcher", "hsc", "targets"]}
{{- end -}}
{{- end -}}

{{/* What runs the pods that fire, as kubectl names it. */}}
{{- define "kinesin.workload" -}}
{{- if eq .Values.store "embedded" -}}
statefulset/{{ include "kinesin.fullname" . }}
{{- else -}}
deployment/{{ include "kinesin.fullname" . }}-scheduler
{{- end -}}
{{- end -}}

{{/* The claims of the store embedded: the server's, and the standby's. */}}
{{- define "kinesin.claim" -}}
{{- default (printf "%s-data" (include "kinesin.fullname" .)) .Values.persistence.existingClaim -}}
{{- end -}}

{{- define "kinesin.standbyClaim" -}}
{{- default (printf "%s-standby" (include "kinesin.fullname" .)) .Values.standby.existingClaim -}}
{{- end -}}

{{/* Secrets: those that the values name, or the chart's own. */}}
{{- define "kinesin.authSecret" -}}
{{- default (printf "%s-auth" (include "kinesin.fullname" .)) .Values.auth.secretName -}}
{{- end -}}

{{- define "kinesin.tlsSecret" -}}
{{- default (printf "%s-tls" (include "kinesin.fullname" .)) .Values.tls.secretName -}}
{{- end -}}

{{/* The key of the token that Prometheus sends; empty where nothing says. */}}
{{- define "kinesin.prometheusKey" -}}
{{- $own := ternary "" "prometheus" (ne (print .Values.auth.secretName .Values.serviceMonitor.tokenSecretName) "") -}}
{{- coalesce .Values.serviceMonitor.tokenSecretKey .Values.auth.secretKey $own | default "" -}}
{{- end -}}

{{/* Paths and the Services that they lead to, as JSON, the longest first. */}}
{{- define "kinesin.routes" -}}
{{- $name := include "kinesin.fullname" . -}}
{{- $all := list -}}
{{- if eq .Values.layout "split" -}}
{{- range list "/kinesin.v1.WorkerService" "/v1/work" -}}
{{- $all = append $all (dict "path" . "service" (printf "%s-workers" $name)) -}}
{{- end -}}
{{- end -}}
{{- append $all (dict "path" "/" "service" $name) | toJson -}}
{{- end -}}

{{/* TCP ports that pods may reach, as JSON. */}}
{{- define "kinesin.egressPorts" -}}
{{- $ports := list -}}
{{- range .Values.networkPolicy.egressPorts -}}{{- $ports = append $ports (int .) -}}{{- end -}}
{{- range compact (concat (values .Values.aws.endpoints) (list .Values.otlp.endpoint .Values.console.oidc.issuer)) -}}
{{- $port := regexFind ":[0-9]+$" (urlParse .).host | trimPrefix ":" -}}
{{- $ports = append $ports (int (default (ternary "443" "80" (hasPrefix "https:" .)) $port)) -}}
{{- end -}}
{{- $ports | uniq | sortAlpha | toJson -}}
{{- end -}}

{{/* Whether the chart says how many pods a group has. */}}
{{- define "kinesin.hasReplicas" -}}
{{- if and (hasKey . "replicas") (not (kindIs "invalid" .replicas)) -}}true{{- end -}}
{{- end -}}

{{/* Whether pods of these roles talk to the API server. */}}
{{- define "kinesin.watches" -}}
{{- if and (eq .root.Values.store "dynamodb") (eq .root.Values.membership "kubernetes") (has "scheduler" .roles) -}}true{{- end -}}
{{- end -}}

{{/* Whether callers send to pods of these roles, and to others when one of them ends. */}}
{{- define "kinesin.called" -}}
{{- if and (eq .root.Values.store "dynamodb") (or (has "inbound" .roles) (has "hsc" .roles)) -}}true{{- end -}}
{{- end -}}

{{/* Seconds from the deletion of a pod until it is killed: what goes on as before, the hand-over of its
     partitions (8 s at most), the calls in flight, a last recovery point, and a margin. */}}
{{- define "kinesin.graceSeconds" -}}
{{- $before := ternary 60 0 (ne .root.Values.backup.to "") -}}
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
