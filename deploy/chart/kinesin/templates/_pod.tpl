{{/* The pod of a group: of {root, group, roles, values}. */}}

{{- define "kinesin.env" -}}
{{- $v := .root.Values -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- {name: KINESIN_LISTEN, value: ":7070"}
- {name: KINESIN_ROLES, value: {{ join "," .roles | quote }}}
{{- if has "scheduler" .roles }}
- {name: KINESIN_MEMBERSHIP, value: {{ $v.membership }}}
{{- end }}
- {name: KINESIN_STORE, value: dynamodb}
- {name: KINESIN_QUEUE, value: sqs}
- {name: KINESIN_AWS_PREFIX, value: {{ $v.aws.prefix | quote }}}
{{- if $v.auth.secretKey }}
- {name: KINESIN_AUTH_TOKEN_FILE, value: {{ printf "/etc/kinesin/auth/%s" $v.auth.secretKey | quote }}}
{{- end }}
{{- if $v.auth.policyKey }}
- {name: KINESIN_POLICY, value: {{ printf "/etc/kinesin/auth/%s" $v.auth.policyKey | quote }}}
{{- end }}
{{- if $v.tls.enabled }}
- {name: KINESIN_TLS_CERT_FILE, value: /etc/kinesin/tls/tls.crt}
- {name: KINESIN_TLS_KEY_FILE, value: /etc/kinesin/tls/tls.key}
{{- end }}
- {name: KINESIN_DRAIN, value: {{ printf "%ds" (int $v.drainSeconds) }}}
- {name: KINESIN_LOG_LEVEL, value: {{ $v.log.level }}}
- {name: KINESIN_LOG_FORMAT, value: {{ $v.log.format }}}
{{- with $v.aws.region }}
- {name: AWS_REGION, value: {{ quote . }}}
{{- end }}
{{- with $v.aws.endpoints.dynamodb }}
- {name: AWS_ENDPOINT_URL_DYNAMODB, value: {{ quote . }}}
{{- end }}
{{- with $v.aws.endpoints.sqs }}
- {name: AWS_ENDPOINT_URL_SQS, value: {{ quote . }}}
{{- end }}
{{- end -}}

{{/* The variables of the values, as JSON: the group's own win. */}}
{{- define "kinesin.extraEnv" -}}
{{- $own := .values.extraEnv -}}
{{- $names := list -}}
{{- range $own -}}{{- $names = append $names .name -}}{{- end -}}
{{- $all := list -}}
{{- range .root.Values.extraEnv -}}
{{- if not (has .name $names) -}}{{- $all = append $all . -}}{{- end -}}
{{- end -}}
{{- concat $all $own | toJson -}}
{{- end -}}

{{- define "kinesin.probe" -}}
httpGet: {path: {{ .path }}, port: api, scheme: {{ include "kinesin.scheme" .root }}}
{{- end -}}

{{- define "kinesin.pod" -}}
{{- $root := .root -}}
{{- $v := .root.Values -}}
{{- $own := .values -}}
metadata:
  labels:
    # Nothing that changes with the chart's version: pods are replaced when they change themselves.
    {{- include "kinesin.selector" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .group }}
    {{- include "kinesin.roleLabels" . | nindent 4 }}
    {{- with merge (dict) $v.podLabels $v.commonLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    {{- merge (dict) $v.podAnnotations (dict "kubectl.kubernetes.io/default-container" "kinesin") | toYaml | nindent 4 }}
spec:
  serviceAccountName: {{ include "kinesin.serviceAccount" $root | quote }}
  automountServiceAccountToken: {{ ternary true false (eq (include "kinesin.watches" .) "true") }}
  # A Service named kinesin would otherwise set variables that begin with KINESIN_.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ include "kinesin.graceSeconds" . }}
  securityContext:
    runAsNonRoot: true
    {{- range $key := list "runAsUser" "runAsGroup" "fsGroup" }}
    {{- if hasKey $v.podSecurity $key }}
    {{ $key }}: {{ int64 (get $v.podSecurity $key) }}
    {{- end }}
    {{- end }}
    seccompProfile: {type: RuntimeDefault}
  {{- with $v.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $own.priorityClassName }}
  priorityClassName: {{ quote . }}
  {{- end }}
  {{- with $v.topologySpread.keys }}
  topologySpreadConstraints:
    {{- range . }}
    - topologyKey: {{ quote . }}
      maxSkew: {{ int $v.topologySpread.maxSkew }}
      whenUnsatisfiable: {{ $v.topologySpread.whenUnsatisfiable }}
      labelSelector:
        matchLabels:
          {{- include "kinesin.selector" $root | nindent 10 }}
          app.kubernetes.io/component: {{ $.group }}
      # Of the new pods of an update, not of those that go.
      matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
  {{- range $key := list "nodeSelector" "affinity" "tolerations" }}
  {{- with get $own $key }}
  {{ $key }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  containers:
    - name: kinesin
      image: {{ include "kinesin.image" $root | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args: [serve]
      # A pod that ended says why in its status.
      terminationMessagePolicy: FallbackToLogsOnError
      env:
        {{- include "kinesin.env" . | nindent 8 }}
        {{- range include "kinesin.extraEnv" . | fromJsonArray }}
        - {{- toYaml . | nindent 10 }}
        {{- end }}
      {{- with $v.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: api, containerPort: 7070, protocol: TCP}
      # Up to a minute for the first look at tables and queues.
      startupProbe:
        {{- include "kinesin.probe" (dict "root" $root "path" "/livez") | nindent 8 }}
        periodSeconds: 1
        timeoutSeconds: 2
        failureThreshold: 60
      # Warm and owning: other pods leave their partitions to this one once it is ready.
      readinessProbe:
        {{- include "kinesin.probe" (dict "root" $root "path" "/readyz") | nindent 8 }}
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: 3
      # The loops make progress.
      livenessProbe:
        {{- include "kinesin.probe" (dict "root" $root "path" "/livez") | nindent 8 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      {{- if and (include "kinesin.called" .) (gt (int $v.preStopSeconds) 0) }}
      lifecycle:
        preStop:
          sleep: {seconds: {{ int $v.preStopSeconds }}}
      {{- end }}
      resources:
        {{- toYaml $own.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        runAsNonRoot: true
        capabilities: {drop: [ALL]}
        seccompProfile: {type: RuntimeDefault}
      volumeMounts:
        - {name: auth, mountPath: /etc/kinesin/auth, readOnly: true}
        {{- if $v.tls.enabled }}
        - {name: tls, mountPath: /etc/kinesin/tls, readOnly: true}
        {{- end }}
  volumes:
    # For the group to read (0440). Whole volumes: the kubelet brings them up to date, which it does not do for single files.
    - name: auth
      secret: {secretName: {{ $v.auth.secretName | quote }}, defaultMode: 288}
    {{- if $v.tls.enabled }}
    - name: tls
      secret: {secretName: {{ $v.tls.secretName | quote }}, defaultMode: 288}
    {{- end }}
{{- end -}}
