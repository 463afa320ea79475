{{/* The chart's name, short enough for a label. */}}
{{- define "firebreak.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* What every name begins with. */}}
{{- define "firebreak.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "firebreak.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "firebreak.nodeCache.name" -}}
{{ include "firebreak.fullname" . }}-node-cache
{{- end -}}

{{- define "firebreak.nodeCache.serviceAccount" -}}
{{- default (include "firebreak.nodeCache.name" .) .Values.nodeCache.serviceAccount.name -}}
{{- end -}}

{{/* What a selector goes by: it never changes. */}}
{{- define "firebreak.nodeCache.selector" -}}
app.kubernetes.io/name: {{ include "firebreak.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: node-cache
{{- end -}}

{{- define "firebreak.nodeCache.labels" -}}
{{ include "firebreak.nodeCache.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: firebreak
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "firebreak.image" -}}
{{- $i := .Values.image -}}
{{- if not $i.repository -}}
{{- fail "image.repository is missing: there is no public image yet, so build one (make image), push it to your registry, and name it here" -}}
{{- end -}}
{{- if $i.digest -}}
{{ printf "%s@%s" $i.repository $i.digest }}
{{- else -}}
{{ printf "%s:%s" $i.repository (default .Chart.AppVersion $i.tag) }}
{{- end -}}
{{- end -}}

{{/* The port that metrics are at. */}}
{{- define "firebreak.nodeCache.metricsPort" -}}
{{- regexFind "[0-9]+$" .Values.nodeCache.metrics.address -}}
{{- end -}}

{{/* What a schema cannot say. */}}
{{- define "firebreak.nodeCache.check" -}}
{{- $n := .Values.nodeCache -}}
{{- if and (eq $n.mode "serviceIP") (not .Values.clusterDNS.serviceIPs) -}}
{{- fail (printf "nodeCache.mode is serviceIP, so clusterDNS.serviceIPs has to say at which addresses: kubectl -n %s get service %s -o jsonpath='{.spec.clusterIPs}'" .Values.clusterDNS.namespace .Values.clusterDNS.service) -}}
{{- end -}}
{{- if and (ne $n.mode "localRedirect") (not $n.addresses) -}}
{{- fail "nodeCache.addresses is empty: give the node's own address, such as 169.254.20.10, or choose the mode localRedirect" -}}
{{- end -}}
{{- range $n.addresses -}}
{{- if has . $.Values.clusterDNS.serviceIPs -}}
{{- fail (printf "%s is in nodeCache.addresses and in clusterDNS.serviceIPs: the former are the node's own, the latter the Service's" .) -}}
{{- end -}}
{{- if hasPrefix "fe80:" (lower .) -}}
{{- fail (printf "nodeCache.addresses has %s: resolv.conf cannot use a link-local IPv6 address; use a unique local one, such as fd00:6664:6e73::10" .) -}}
{{- end -}}
{{- end -}}
{{- $families := list -}}
{{- range $n.addresses -}}{{- $families = append $families (contains ":" .) -}}{{- end -}}
{{- if ne (len $families) (len (uniq $families)) -}}
{{- fail "nodeCache.addresses has two of one IP family: one for each is enough" -}}
{{- end -}}
{{- if and (eq $n.mode "localRedirect") (ne .Release.Namespace .Values.clusterDNS.namespace) -}}
{{- fail (printf "nodeCache.mode is localRedirect, so the release has to be in the namespace of cluster DNS, %s: Cilium takes only backends of the policy's own namespace" .Values.clusterDNS.namespace) -}}
{{- end -}}
{{- if and $n.control.secretName (not $n.control.callers) -}}
{{- fail "nodeCache.control.callers is empty: nobody could call; name the controller as its certificate does, or take nodeCache.control.secretName away" -}}
{{- end -}}
{{- if and $n.corefile (or $n.extraServerBlocks .Values.stubDomains .Values.upstream.servers) -}}
{{- fail "nodeCache.corefile is a whole Corefile, so nodeCache.extraServerBlocks, stubDomains and upstream.servers would do nothing: put them in it" -}}
{{- end -}}
{{- end -}}
