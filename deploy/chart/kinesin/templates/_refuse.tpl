{{/* What the schema cannot say. All that is wrong is said at once. */}}

{{- define "kinesin.refusals" -}}
{{- $v := .Values -}}
{{- $wrong := list -}}
{{- if not (regexMatch (include "kinesin.repository" .) $v.image.repository) -}}
{{- $wrong = append $wrong (printf "image.repository is %q: write it as registry.example:5000/team/kinesin, the path in lower case, without https://, tag (that is image.tag) and digest (image.digest)" $v.image.repository) -}}
{{- end -}}
{{- if eq $v.store "dynamodb" -}}
{{- if not $v.aws.prefix -}}
{{- $wrong = append $wrong "aws.prefix is missing: with what do the names of the tables and queues begin that `kinesin aws setup` made? For example --set aws.prefix=prod" -}}
{{- end -}}
{{- range $name, $value := dict "backup.to" $v.backup.to "standby.enabled" $v.standby.enabled "persistence.existingClaim" $v.persistence.existingClaim -}}
{{- if $value -}}
{{- $wrong = append $wrong (printf "%s is set, and store is dynamodb, which has no volume: leave it out, or set store=embedded" $name) -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- $one := and (include "kinesin.hasReplicas" $v.scheduler) (ne (int $v.scheduler.replicas) 1) -}}
{{- range $name, $value := dict "aws.prefix" $v.aws.prefix "layout=split" (eq $v.layout "split") "scheduler.replicas" $one "scheduler.autoscaling.kind" (ne $v.scheduler.autoscaling.kind "none") -}}
{{- if $value -}}
{{- $wrong = append $wrong (printf "%s is set, and store is embedded, which is one server: leave it out, or set store=dynamodb for a fleet" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $v.backup.to -}}
{{- if not (hasPrefix "s3://" $v.backup.to) -}}
{{- $mounted := false -}}
{{- range $v.extraVolumeMounts -}}
{{- if or (eq .mountPath $v.backup.to) (hasPrefix (printf "%s/" (trimSuffix "/" .mountPath)) $v.backup.to) -}}{{- $mounted = true -}}{{- end -}}
{{- end -}}
{{- if not $mounted -}}
{{- $wrong = append $wrong (printf "backup.to is %s, below no mountPath of extraVolumeMounts: mount a volume there other than the server's own, or write s3://BUCKET/PREFIX" $v.backup.to) -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- range $name, $value := dict "backup.every" $v.backup.every "backup.keep" $v.backup.keep "standby.enabled" $v.standby.enabled -}}
{{- if $value -}}
{{- $wrong = append $wrong (printf "%s is set, and backup.to is not: name the place of backups, such as s3://BUCKET/PREFIX" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.standby.promote (not $v.standby.enabled) -}}
{{- $wrong = append $wrong "standby.promote is set, and standby.enabled is false: there is no standby to take over" -}}
{{- end -}}
{{- if and $v.standby.enabled (eq (include "kinesin.claim" .) (include "kinesin.standbyClaim" .)) -}}
{{- $wrong = append $wrong (printf "server and standby would have the same claim %s: name another in standby.existingClaim, or leave out standby.enabled" (include "kinesin.claim" .)) -}}
{{- end -}}
{{- if not $v.auth.secretName -}}
{{- if or $v.auth.secretKey (ne $v.auth.policyKey "policy.yaml") -}}
{{- $wrong = append $wrong "auth.secretKey or auth.policyKey is set, and auth.secretName is not: name the Secret that has the key" -}}
{{- end -}}
{{- else if not (or $v.auth.policyKey $v.auth.secretKey) -}}
{{- $wrong = append $wrong "auth.policyKey and auth.secretKey are empty, so nobody could call: name the key of a policy, or that of tokens that may do everything" -}}
{{- end -}}
{{- with $v.console.oidc -}}
{{- if ne (empty .issuer) (empty .clientID) -}}
{{- $wrong = append $wrong "console.oidc.issuer and console.oidc.clientID belong together: set both, or none" -}}
{{- end -}}
{{- if and (or .secretName .redirectURL .scopes) (not .issuer) -}}
{{- $wrong = append $wrong "console.oidc.issuer is missing: at whose page do browsers sign in?" -}}
{{- end -}}
{{- if and .issuer (not (and $v.auth.secretName $v.auth.policyKey)) -}}
{{- $wrong = append $wrong "console.oidc.issuer has to be an issuer of a policy of yours, with the identities that sign in: name its Secret in auth.secretName, and its key in auth.policyKey" -}}
{{- end -}}
{{- end -}}
{{- if and (or $v.otlp.metrics $v.otlp.traceSample) (not $v.otlp.endpoint) -}}
{{- $wrong = append $wrong "otlp.endpoint is missing: which collector gets metrics and traces? For example http://collector.monitoring:4318" -}}
{{- end -}}
{{- if and $v.httpRoute.enabled (not $v.httpRoute.parentRefs) -}}
{{- $wrong = append $wrong "httpRoute.parentRefs is empty: name the gateways, each as {name: …, namespace: …}" -}}
{{- end -}}
{{- if and $v.tls.secretName (not $v.tls.enabled) -}}
{{- $wrong = append $wrong "tls.secretName is set, and tls.enabled is false: leave one of them" -}}
{{- end -}}
{{- if and $v.serviceMonitor.enabled (not (include "kinesin.prometheusKey" .)) -}}
{{- $wrong = append $wrong "serviceMonitor.tokenSecretKey is missing: under which key of serviceMonitor.tokenSecretName (auth.secretName when empty) is the token that Prometheus sends? Its identity needs the grant metrics" -}}
{{- end -}}
{{- if and (not $v.serviceAccount.create) (not $v.serviceAccount.name) -}}
{{- $wrong = append $wrong "serviceAccount.create is false and serviceAccount.name is empty: name the ServiceAccount that the pods are to have" -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]" (include "kinesin.fullname" .)) -}}
{{- $wrong = append $wrong (printf "the names of Services would begin with %q, and not every cluster takes one that begins with a digit: choose another name of the release, or set fullnameOverride" (include "kinesin.fullname" .)) -}}
{{- end -}}
{{- $keyed := dict
  "commonLabels" $v.commonLabels "podLabels" $v.podLabels "podAnnotations" $v.podAnnotations
  "serviceAccount.annotations" $v.serviceAccount.annotations "serviceMonitor.labels" $v.serviceMonitor.labels
  "persistence.annotations" $v.persistence.annotations "ingress.annotations" $v.ingress.annotations "httpRoute.annotations" $v.httpRoute.annotations
  "service.annotations" $v.service.annotations "service.workers.annotations" $v.service.workers.annotations
  "scheduler.autoscaling.externalMetricLabels" $v.scheduler.autoscaling.externalMetricLabels -}}
{{- $lists := dict "extraEnv" $v.extraEnv -}}
{{- range $group, $roles := include "kinesin.groups" . | fromJson -}}
{{- $own := get $v $group -}}
{{- $lists = set $lists (printf "%s.extraEnv" $group) $own.extraEnv -}}
{{- $keyed = set $keyed (printf "%s.nodeSelector" $group) $own.nodeSelector -}}
{{- $a := $own.autoscaling -}}
{{- if ne $a.kind "none" -}}
{{- if gt (int $a.minReplicas) (int $a.maxReplicas) -}}
{{- $wrong = append $wrong (printf "%s.autoscaling.minReplicas is %d, more than maxReplicas, %d" $group (int $a.minReplicas) (int $a.maxReplicas)) -}}
{{- end -}}
{{- $external := or (gt (float64 (default 0 $a.scheduleLagSeconds)) 0.0) (gt (int64 (default 0 $a.due5mTasksPerPod)) 0) -}}
{{- if and (le (int $a.cpuUtilization) 0) (not $external) -}}
{{- $wrong = append $wrong (printf "%s.autoscaling has nothing to scale by: set at least one of %s" $group (ternary "cpuUtilization, scheduleLagSeconds and due5mTasksPerPod" "cpuUtilization" (eq $group "scheduler"))) -}}
{{- end -}}
{{- if and (gt (int $a.cpuUtilization) 0) (not (dig "requests" "cpu" "" $own.resources)) -}}
{{- $wrong = append $wrong (printf "%s.autoscaling.cpuUtilization needs %s.resources.requests.cpu, of which it is a share" $group $group) -}}
{{- end -}}
{{- if and (eq $a.kind "keda") $external (not $a.keda.prometheusAddress) -}}
{{- $wrong = append $wrong (printf "%s.autoscaling.keda.prometheusAddress is missing: the URL of the Prometheus that has kinesin_schedule_lag_seconds, for example http://prometheus.monitoring:9090" $group) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $pattern := include "kinesin.key" . -}}
{{- range $where, $pairs := $keyed -}}
{{- range $key, $value := $pairs -}}
{{- if and (has $where (list "commonLabels" "podLabels")) (regexMatch "^(app[.]kubernetes[.]io|helm[.]sh|kinesin[.]io)/" $key) -}}
{{- $wrong = append $wrong (printf "%s: %s is the chart's own: choose a label that begins with none of app.kubernetes.io/, helm.sh/ and kinesin.io/" $where $key) -}}
{{- else if not (regexMatch $pattern (ternary (lower $key) $key (hasSuffix "nnotations" $where))) -}}
{{- $wrong = append $wrong (printf "%s: %q is no name of a label or annotation: at most 63 letters, digits, -, _ and ., a letter or digit first and last, before them a domain and / if need be, such as example.com/team" $where $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $known := include "kinesin.known" . | splitList " " -}}
{{- range $where, $list := $lists -}}
{{- $seen := list -}}
{{- range $list -}}
{{- if has .name $known -}}
{{- $wrong = append $wrong (printf "%s: %s is set by the chart: see values.yaml" $where .name) -}}
{{- else if and .value (regexMatch "(SECRET|TOKEN|PASSWORD|INBOUND_KEY|ACCESS_KEY_ID)" .name) (not (hasSuffix "_FILE" .name)) -}}
{{- $wrong = append $wrong (printf "%s: %s would be in plain text in the Deployment: take it from a Secret, with valueFrom.secretKeyRef or extraEnvFrom" $where .name) -}}
{{- end -}}
{{- if has .name $seen -}}
{{- $wrong = append $wrong (printf "%s: %s is there twice: leave one of them" $where .name) -}}
{{- end -}}
{{- $seen = append $seen .name -}}
{{- end -}}
{{- end -}}
{{- range $v.extraArgs -}}
{{- $name := regexReplaceAll "=.*" . "" | trimPrefix "--" | replace "-" "_" | upper | printf "KINESIN_%s" -}}
{{- if has $name $known -}}
{{- $wrong = append $wrong (printf "extraArgs: %s is set by the chart, as %s: see values.yaml" . $name) -}}
{{- end -}}
{{- end -}}
{{- uniq $wrong | join "\n" -}}
{{- end -}}

{{/* What names an image without tag and digest: a host that has a dot or a port, if any, and a path. */}}
{{- define "kinesin.repository" -}}
^(([A-Za-z0-9][-A-Za-z0-9]*([.][-A-Za-z0-9]+)+(:[0-9]+)?|[A-Za-z0-9][-A-Za-z0-9]*:[0-9]+|\[[0-9a-fA-F:]+\](:[0-9]+)?)/)?[a-z0-9]+(([.]|_|__|-+|/)[a-z0-9]+)*$
{{- end -}}

{{/* What names a label; an annotation's domain may be in upper case besides. */}}
{{- define "kinesin.key" -}}
^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$
{{- end -}}

{{/* Variables that the chart sets. */}}
{{- define "kinesin.known" -}}
POD_NAME POD_NAMESPACE KINESIN_LISTEN KINESIN_ROLES KINESIN_MEMBERSHIP KINESIN_STORE KINESIN_QUEUE KINESIN_DATA KINESIN_BACKUP_TO KINESIN_BACKUP_EVERY KINESIN_BACKUP_KEEP KINESIN_AWS_PREFIX KINESIN_AUTH_TOKEN_FILE KINESIN_POLICY KINESIN_CONSOLE KINESIN_CONSOLE_READ_ONLY KINESIN_CONSOLE_OIDC_ISSUER KINESIN_CONSOLE_OIDC_CLIENT_ID KINESIN_CONSOLE_OIDC_CLIENT_SECRET_FILE KINESIN_CONSOLE_OIDC_REDIRECT_URL KINESIN_CONSOLE_OIDC_SCOPES KINESIN_OTLP_ENDPOINT KINESIN_OTLP_METRICS KINESIN_TRACE_SAMPLE KINESIN_TLS_CERT_FILE KINESIN_TLS_KEY_FILE KINESIN_DRAIN KINESIN_LOG_LEVEL KINESIN_LOG_FORMAT AWS_REGION AWS_ENDPOINT_URL_DYNAMODB AWS_ENDPOINT_URL_SQS AWS_ENDPOINT_URL_S3
{{- end -}}
