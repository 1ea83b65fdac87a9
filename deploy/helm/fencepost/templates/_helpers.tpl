{{- define "fencepost.name" -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "fencepost.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fencepost.labels" -}}
{{ include "fencepost.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "fencepost.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "fencepost.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "fencepost.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* The variable of the file with a ledger's URL. The secret has one entry "directory". */ -}}
{{- define "fencepost.ledgerVariable" -}}
{{- if eq . "directory" }}{{ fail "a ledger must not be named directory" }}{{ end }}
{{- regexReplaceAll "[^A-Z0-9]" (upper .) "_" | printf "FENCEPOST_LEDGERS_%s_URL_FILE" }}
{{- end }}

{{- /* The container that migrates a ledger. */ -}}
{{- define "fencepost.migration" -}}
{{- $name := regexReplaceAll "[^a-z0-9]" (.name | default "") "-" }}
{{- printf "migrate-%s" $name | trunc 63 | trimSuffix "-" }}
{{- end }}
