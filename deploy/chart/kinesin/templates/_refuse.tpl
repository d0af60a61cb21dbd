{{/* What the schema cannot say. All that is wrong is said at once. */}}

{{- define "kinesin.refusals" -}}
{{- $v := .Values -}}
{{- $wrong := list -}}
{{- if not $v.image.repository -}}
{{- $wrong = append $wrong "image.repository is missing: where is the image that you built from the Dockerfile? For example --set image.repository=registry.example/kinesin" -}}
{{- else if not (regexMatch (include "kinesin.repository" .) $v.image.repository) -}}
{{- $wrong = append $wrong (printf "image.repository is %q: write it as registry.example:5000/team/kinesin, the path in lower case, without https://, tag (that is image.tag) and digest (image.digest)" $v.image.repository) -}}
{{- end -}}
{{- if not $v.aws.prefix -}}
{{- $wrong = append $wrong "aws.prefix is missing: with what do the names of the tables and queues begin that `kinesin aws setup` made? For example --set aws.prefix=prod" -}}
{{- end -}}
{{- if not $v.auth.secretName -}}
{{- $wrong = append $wrong (printf "auth.secretName is missing: which Secret holds the policy, of who may do what? Make one: kubectl create secret generic kinesin-auth --namespace %s --from-file policy.yaml" .Release.Namespace) -}}
{{- end -}}
{{- if not (or $v.auth.policyKey $v.auth.secretKey) -}}
{{- $wrong = append $wrong "auth.policyKey and auth.secretKey are empty, so nobody could call: name the key of a policy, or that of tokens that may do everything" -}}
{{- end -}}
{{- if and $v.tls.enabled (not $v.tls.secretName) -}}
{{- $wrong = append $wrong (printf "tls.secretName is missing: which Secret holds the certificate? Have cert-manager make one, or: kubectl create secret tls kinesin-tls --namespace %s --cert tls.crt --key tls.key. Tokens and payloads cross the network of pods in plain text with tls.enabled=false" .Release.Namespace) -}}
{{- end -}}
{{- if and $v.tls.secretName (not $v.tls.enabled) -}}
{{- $wrong = append $wrong "tls.secretName is set, and tls.enabled is false: leave one of them" -}}
{{- end -}}
{{- if and $v.serviceMonitor.enabled (not (or $v.serviceMonitor.tokenSecretKey $v.auth.secretKey)) -}}
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
{{- $wrong = append $wrong (printf "%s: %s is set by the chart: see the values in README.md" $where .name) -}}
{{- else if and .value (regexMatch "(SECRET|TOKEN|PASSWORD|INBOUND_KEY|ACCESS_KEY_ID)" .name) (not (hasSuffix "_FILE" .name)) -}}
{{- $wrong = append $wrong (printf "%s: %s would be in plain text in the Deployment: take it from a Secret, with valueFrom.secretKeyRef or extraEnvFrom" $where .name) -}}
{{- end -}}
{{- if has .name $seen -}}
{{- $wrong = append $wrong (printf "%s: %s is there twice: leave one of them" $where .name) -}}
{{- end -}}
{{- $seen = append $seen .name -}}
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
POD_NAME POD_NAMESPACE KINESIN_LISTEN KINESIN_ROLES KINESIN_MEMBERSHIP KINESIN_STORE KINESIN_QUEUE KINESIN_AWS_PREFIX KINESIN_AUTH_TOKEN_FILE KINESIN_TLS_CERT_FILE KINESIN_TLS_KEY_FILE KINESIN_DRAIN KINESIN_LOG_LEVEL KINESIN_LOG_FORMAT AWS_REGION AWS_ENDPOINT_URL_DYNAMODB AWS_ENDPOINT_URL_SQS
{{- end -}}
