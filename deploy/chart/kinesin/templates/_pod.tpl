{{/* The pod of a group: of {root, group, roles, values}, and with the store embedded {claim}; that of the standby has no
     roles, and {args}. */}}

{{- define "kinesin.awsEnv" -}}
{{- with .Values.aws.region }}
- {name: AWS_REGION, value: {{ quote . }}}
{{- end }}
{{- range $service, $url := .Values.aws.endpoints }}
{{- with $url }}
- {name: AWS_ENDPOINT_URL_{{ upper $service }}, value: {{ quote . }}}
{{- end }}
{{- end }}
- {name: KINESIN_LOG_LEVEL, value: {{ .Values.log.level }}}
- {name: KINESIN_LOG_FORMAT, value: {{ .Values.log.format }}}
{{- end -}}

{{- define "kinesin.env" -}}
{{- $v := .root.Values -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- {name: KINESIN_LISTEN, value: ":7070"}
- {name: KINESIN_ROLES, value: {{ join "," .roles | quote }}}
{{- if eq $v.store "embedded" }}
- {name: KINESIN_STORE, value: pebble}
- {name: KINESIN_QUEUE, value: memory}
- {name: KINESIN_DATA, value: /var/lib/kinesin/data}
{{- range $key, $value := $v.backup }}
{{- with $value }}
- {name: KINESIN_BACKUP_{{ upper $key }}, value: {{ quote . }}}
{{- end }}
{{- end }}
{{- else }}
{{- if has "scheduler" .roles }}
- {name: KINESIN_MEMBERSHIP, value: {{ $v.membership }}}
{{- end }}
- {name: KINESIN_STORE, value: dynamodb}
- {name: KINESIN_QUEUE, value: sqs}
- {name: KINESIN_AWS_PREFIX, value: {{ $v.aws.prefix | quote }}}
{{- end }}
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
- {name: KINESIN_CONSOLE, value: {{ $v.console.enabled | quote }}}
{{- if $v.console.readOnly }}
- {name: KINESIN_CONSOLE_READ_ONLY, value: "true"}
{{- end }}
{{- with $v.console.oidc }}
{{- range $name, $value := dict "ISSUER" .issuer "CLIENT_ID" .clientID "REDIRECT_URL" .redirectURL "SCOPES" .scopes }}
{{- with $value }}
- {name: KINESIN_CONSOLE_OIDC_{{ $name }}, value: {{ quote . }}}
{{- end }}
{{- end }}
{{- if .secretName }}
- {name: KINESIN_CONSOLE_OIDC_CLIENT_SECRET_FILE, value: {{ printf "/etc/kinesin/oidc/%s" .secretKey | quote }}}
{{- end }}
{{- end }}
{{- with $v.otlp.endpoint }}
- {name: KINESIN_OTLP_ENDPOINT, value: {{ quote . }}}
{{- end }}
{{- if $v.otlp.metrics }}
- {name: KINESIN_OTLP_METRICS, value: "true"}
{{- end }}
{{- with $v.otlp.traceSample }}
- {name: KINESIN_TRACE_SAMPLE, value: {{ quote . }}}
{{- end }}
{{- include "kinesin.awsEnv" .root }}
{{- end -}}

{{/* Secrets that pods with roles mount, as JSON: name of the volume and folder to Secret. */}}
{{- define "kinesin.secrets" -}}
{{- $all := dict "auth" (include "kinesin.authSecret" .) -}}
{{- if .Values.tls.enabled -}}{{- $all = set $all "tls" (include "kinesin.tlsSecret" .) -}}{{- end -}}
{{- with .Values.console.oidc.secretName -}}{{- $all = set $all "oidc" . -}}{{- end -}}
{{- toJson $all -}}
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
{{- $secrets := dict -}}
{{- if .roles -}}{{- $secrets = include "kinesin.secrets" $root | fromJson -}}{{- end -}}
metadata:
  labels:
    # Nothing that changes with the chart's version: pods are replaced when they change themselves.
    {{- include "kinesin.selector" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .group }}
    {{- with include "kinesin.roleLabels" . }}
    {{- . | nindent 4 }}
    {{- end }}
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
    {{- if .claim }}
    # A large volume is not walked through at each start.
    fsGroupChangePolicy: OnRootMismatch
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
          {{- if not $.claim }}
          app.kubernetes.io/component: {{ $.group }}
      # Of the new pods of an update, not of those that go.
      matchLabelKeys: [pod-template-hash]
          {{- end }}
    {{- end }}
  {{- end }}
  {{- range $key := list "nodeSelector" "affinity" "tolerations" }}
  {{- with get $own $key }}
  {{ $key }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- if .promotes }}
  restartPolicy: OnFailure
  {{- end }}
  containers:
    - name: kinesin
      image: {{ include "kinesin.image" $root | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args: {{ default (prepend $v.extraArgs "serve") .args | toJson }}
      # A pod that ended says why in its status.
      terminationMessagePolicy: FallbackToLogsOnError
      env:
        {{- ternary (include "kinesin.env" .) (include "kinesin.awsEnv" $root) (gt (len .roles) 0) | trim | nindent 8 }}
        {{- range include "kinesin.extraEnv" . | fromJsonArray }}
        - {{- toYaml . | nindent 10 }}
        {{- end }}
      {{- with $v.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if .roles }}
      ports:
        - {name: api, containerPort: 7070, protocol: TCP}
      # Up to a minute for the first look at tables and queues; up to ten for what a store has to catch up with.
      startupProbe:
        {{- include "kinesin.probe" (dict "root" $root "path" "/livez") | nindent 8 }}
        periodSeconds: 1
        timeoutSeconds: 2
        failureThreshold: {{ ternary 600 60 (eq $v.store "embedded") }}
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
        {{- range $name, $secret := $secrets }}
        - {name: {{ $name }}, mountPath: /etc/kinesin/{{ $name }}, readOnly: true}
        {{- end }}
        {{- if .claim }}
        - {name: data, mountPath: /var/lib/kinesin}
        {{- end }}
        {{- with $v.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- if .roles }}
    {{- with $v.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- end }}
  volumes:
    # For the group to read (0440). Whole volumes: the kubelet brings them up to date, which it does not do for single files.
    {{- range $name, $secret := $secrets }}
    - name: {{ $name }}
      secret: {secretName: {{ quote $secret }}, defaultMode: 288}
    {{- end }}
    {{- with .claim }}
    - name: data
      persistentVolumeClaim: {claimName: {{ quote . }}}
    {{- end }}
    {{- with $v.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
