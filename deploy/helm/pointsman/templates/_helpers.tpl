{{- define "pointsman.name" -}}
{{- .Values.nameOverride | default "pointsman" -}}
{{- end }}

{{- define "pointsman.selector" -}}
app.kubernetes.io/name: {{ include "pointsman.name" . }}
{{- end }}

{{- define "pointsman.labels" -}}
{{ include "pointsman.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "pointsman.needsTools" -}}
{{- if or .Values.image.iptablesTools (eq .Values.mode "iptables") }}true{{ end -}}
{{- end }}

{{- define "pointsman.image" -}}
{{- $suffix := ternary "-iptables" "" (eq (include "pointsman.needsTools" .) "true") -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (print .Chart.AppVersion $suffix) }}
{{- end -}}
{{- end }}

{{- define "pointsman.seccompProfile" -}}
type: {{ .Values.seccomp.type }}
{{- if eq .Values.seccomp.type "Localhost" }}
{{- $suffix := ternary "-iptables" "" (eq (include "pointsman.needsTools" .) "true") }}
localhostProfile: {{ .Values.seccomp.localhostProfile | default (printf "profiles/pointsman-kube-proxy%s.json" $suffix) }}
{{- end }}
{{- end }}

{{- define "pointsman.metricsAddress" -}}
{{- $address := ternary "0.0.0.0" .Values.metrics.bindAddress (and .Values.monitoring.podMonitor.enabled (eq .Values.metrics.bindAddress "127.0.0.1")) -}}
{{- printf "%s:%v" $address .Values.metrics.port -}}
{{- end }}

{{/* The KubeProxyConfiguration: what the chart sets, and config over it. */}}
{{- define "pointsman.config" -}}
{{- $set := dict
    "apiVersion" "kubeproxy.config.k8s.io/v1alpha1"
    "kind" "KubeProxyConfiguration"
    "mode" .Values.mode
    "clientConnection" (dict "kubeconfig" "/var/lib/kube-proxy/kubeconfig.conf")
    "clusterCIDR" .Values.clusterCIDR
    "oomScoreAdj" -997
    "healthzBindAddress" (printf "%s:%v" .Values.healthz.bindAddress .Values.healthz.port)
    "metricsBindAddress" (include "pointsman.metricsAddress" .) -}}
{{- toYaml (mergeOverwrite $set (deepCopy .Values.config)) -}}
{{- end }}

{{/* Mistakes that the schema cannot see, each as one line that says what to do. */}}
{{- define "pointsman.check" -}}
{{- $server := .Values.apiServer | trimSuffix "/" -}}
{{- if not $server -}}
{{- fail "apiServer is missing: set it to an address of the apiserver that works without any Service, such as https://10.0.0.1:6443" -}}
{{- end -}}
{{- if not (regexMatch "^https?://[^/]+$" $server) -}}
{{- fail (printf "apiServer %q is not a URL such as https://10.0.0.1:6443" .Values.apiServer) -}}
{{- end -}}
{{- $host := (urlParse $server).hostname -}}
{{- $service := lookup "v1" "Service" "default" "kubernetes" -}}
{{- $clusterIPs := list -}}
{{- if $service }}{{ $clusterIPs = $service.spec.clusterIPs | default list }}{{ end -}}
{{- if or (regexMatch "^kubernetes(\\.default(\\.svc.*)?)?$" $host) (has $host $clusterIPs) -}}
{{- fail (printf "apiServer %q is the Service kubernetes, which works only once a kube-proxy runs: set an address of the apiserver itself" .Values.apiServer) -}}
{{- end -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is missing: set it to where you pushed the image, such as registry.example.com/pointsman/kube-proxy" -}}
{{- end -}}
{{- range $field := list "mode" "clusterCIDR" "healthzBindAddress" "metricsBindAddress" -}}
{{- if hasKey $.Values.config $field -}}
{{- $instead := get (dict "mode" "mode" "clusterCIDR" "clusterCIDR" "healthzBindAddress" "healthz" "metricsBindAddress" "metrics") $field -}}
{{- fail (printf "config.%s: set the value %s of the chart instead, which other objects depend on" $field $instead) -}}
{{- end -}}
{{- end -}}
{{- $mode := .Values.mode -}}
{{- if and (eq $mode "iptables") .Values.image.tag (not .Values.image.iptablesTools) (not (hasSuffix "-iptables" .Values.image.tag)) -}}
{{- fail (printf "mode iptables needs an image with the iptables tools: set image.tag to %s-iptables, or image.iptablesTools to true if your image has them" .Values.image.tag) -}}
{{- end -}}
{{- end }}
