{{/* The node cache's Corefile. */}}
{{- define "firebreak.nodeCache.corefile" -}}
{{- include "firebreak.nodeCache.check" . -}}
{{- $n := .Values.nodeCache -}}
{{- if $n.corefile -}}
{{ $n.corefile | trim }}
{{ else -}}
{{- $listen := list -}}
{{- if ne $n.mode "localRedirect" -}}{{- $listen = $n.addresses -}}{{- end -}}
{{- if eq $n.mode "serviceIP" -}}{{- $listen = concat $listen .Values.clusterDNS.serviceIPs -}}{{- end -}}
{{- $listen = join " " $listen -}}
# The cluster's own names and addresses: from the pods of cluster DNS.
{{ .Values.clusterDomain }}:53 in-addr.arpa:53 ip6.arpa:53 {
{{- if $listen }}
    bind {{ $listen }}
    nodelocal {{ $listen }} {
        link {{ $n.interface }}
        rules {{ $n.rules }}
        {{- if ne .Values.clusterDomain "cluster.local" }}
        check kubernetes.default.svc.{{ .Values.clusterDomain }}
        {{- end }}
        teardown {{ $n.teardown }}
    }
{{- end }}
    {{- if $n.control.secretName }}
    control {{ $n.control.address }} {
        tls /etc/firebreak/tls/tls.crt /etc/firebreak/tls/tls.key /etc/firebreak/tls/ca.crt
        allow {{ join " " $n.control.callers }}
        socket unix:///run/firebreak/control.sock
    }
    {{- else }}
    control unix:///run/firebreak/control.sock
    {{- end }}
    {{- include "firebreak.nodeCache.plugins" . }}
    {{- if $n.health.address }}
    health {{ $n.health.address }}
    {{- end }}
    nodecache {
        success 0 {{ $n.cache.clusterTTL }}
        denial 0 {{ $n.cache.denialTTL }}
        {{- include "firebreak.nodeCache.stale" . }}
        bytes {{ $n.cache.bytes }}
        {{- if $n.snapshot.enabled }}
        snapshot /var/lib/firebreak/answers
        {{- end }}
    }
    {{- range $zone := list .Values.clusterDomain "in-addr.arpa" "ip6.arpa" }}
    hedge {{ $zone }} kubernetes {{ $.Values.clusterDNS.service }}.{{ $.Values.clusterDNS.namespace }}{{ with $.Values.clusterDNS.port }}:{{ . }}{{ end }} {
        {{- if ne $zone $.Values.clusterDomain }}
        probe {{ $.Values.clusterDomain }} SOA
        {{- end }}
        {{- if and (eq $n.mode "linkLocal") $.Values.clusterDNS.serviceIPs }}
        fallback {{ join " " $.Values.clusterDNS.serviceIPs }}
        {{- end }}
        {{- if $.Values.clusterDNS.forceTCP }}
        force_tcp
        {{- end }}
        {{- if $n.snapshot.enabled }}
        snapshot /var/lib/firebreak/endpoints
        {{- end }}
    }
    {{- end }}
}
{{- range $zone, $servers := .Values.stubDomains }}
{{ $zone }}:53 {
{{- if $listen }}
    bind {{ $listen }}
{{- end }}
    {{- include "firebreak.nodeCache.plugins" $ }}
    nodecache {
        success 0 {{ $n.cache.worldTTL }}
        denial 0 {{ $n.cache.denialTTL }}
        {{- include "firebreak.nodeCache.stale" $ }}
    }
    hedge {{ $zone }} {{ join " " $servers }}
}
{{- end }}
# All other names.
.:53 {
{{- if $listen }}
    bind {{ $listen }}
{{- end }}
    {{- include "firebreak.nodeCache.plugins" . }}
    nodecache {
        success 0 {{ $n.cache.worldTTL }}
        denial 0 {{ $n.cache.denialTTL }}
        {{- include "firebreak.nodeCache.stale" . }}
    }
    hedge . {{ default "/etc/resolv.conf" (join " " .Values.upstream.servers) }}
}
{{- with $n.extraServerBlocks }}
{{ trim . }}
{{- end }}
{{ end -}}
{{- end -}}

{{/* What every server block has. */}}
{{- define "firebreak.nodeCache.plugins" -}}
{{- if eq .Values.nodeCache.configChange "reload" }}
    reload
{{- end }}
    ready 127.0.0.1:0 {
        monitor continuously
    }
    clients
    drill
    prometheus {{ .Values.nodeCache.metrics.address }}
    errors
{{- if .Values.nodeCache.log }}
    log
{{- end }}
{{- end -}}

{{- define "firebreak.nodeCache.stale" -}}
{{- if not .Values.nodeCache.cache.serveStale }}
        serve_stale off
{{- end }}
{{- end -}}
