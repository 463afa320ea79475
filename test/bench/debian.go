package main

import (
	"fmt"
	"strings"

	"firebreakdns.io/firebreak/test/bench/program"
)

// Debian's resolvers, each made to do the same: forward everything to one
// upstream, validate nothing, log nothing, ask nobody else, and answer from its
// cache with as many threads as it has workers. Beyond that they are as they come.
var debian = []server{
	{
		name: "unbound", title: "Unbound", kind: peerKind, pkg: "unbound", binary: "unbound", version: []string{"unbound", "-V"},
		processes: func(p *place) ([]program.Spec, error) {
			size := ""
			if p.entries > 0 {
				size = "    msg-cache-size: 1g\n    rrset-cache-size: 1g\n"
			}
			path, err := p.write("unbound.conf", fmt.Sprintf(`server:
    interface: 127.0.0.1
    port: %d
    num-threads: %d
    so-reuseport: yes
    so-rcvbuf: 4m
    module-config: "iterator"
    do-daemonize: no
    do-not-query-localhost: no
    chroot: ""
    username: ""
    directory: "%s"
    pidfile: ""
    use-syslog: no
    verbosity: 0
    minimal-responses: yes
%sforward-zone:
    name: "."
    forward-addr: 127.0.0.1@%d
remote-control:
    control-enable: no
`, p.port, p.workers, p.dir, size, p.upstream))
			return []program.Spec{{Args: []string{"unbound", "-d", "-p", "-c", path}}}, err
		},
	},
	{
		name: "bind", title: "BIND", kind: peerKind, pkg: "bind9", binary: "named", version: []string{"named", "-v"},
		processes: func(p *place) ([]program.Spec, error) {
			size := ""
			if p.entries > 0 {
				size = "    max-cache-size 1g;\n"
			}
			path, err := p.write("named.conf", fmt.Sprintf(`options {
    directory "%[1]s";
    listen-on port %[2]d { 127.0.0.1; };
    listen-on-v6 { none; };
    forwarders { 127.0.0.1 port %[3]d; };
    forward only;
    recursion yes;
    allow-query { any; };
    dnssec-validation no;
    minimal-responses yes;
    querylog no;
    pid-file none;
    session-keyfile "%[1]s/session.key";
    recursive-clients 10000;
%[4]s};
controls { };
logging { category default { null; }; category unmatched { null; }; };
`, p.dir, p.port, p.upstream, size))
			return []program.Spec{{Args: []string{"named", "-f", "-n", fmt.Sprint(p.workers), "-c", path}}}, err
		},
	},
	{
		// A balancer and not a resolver: it copies what the upstream sent.
		name: "dnsdist", title: "dnsdist (packet cache)", kind: peerKind, pkg: "dnsdist", binary: "dnsdist", version: []string{"dnsdist", "--version"},
		processes: func(p *place) ([]program.Spec, error) {
			var b strings.Builder
			for i := range p.workers {
				word := "addLocal"
				if i == 0 {
					word = "setLocal"
				}
				fmt.Fprintf(&b, "%s('127.0.0.1:%d', {reusePort=true})\n", word, p.port)
			}
			fmt.Fprintf(&b, "newServer({address='127.0.0.1:%d', healthCheckMode='up'})\n", p.upstream)
			fmt.Fprintf(&b, "getPool(''):setCache(newPacketCache(%d))\n", max(100_000, 2*p.entries))
			b.WriteString("setSecurityPollSuffix('')\nsetMaxUDPOutstanding(65535)\n")
			path, err := p.write("dnsdist.conf", b.String())
			return []program.Spec{{Args: []string{"dnsdist", "-C", path, "--supervised", "--disable-syslog"}}}, err
		},
	},
	{
		name: "knot-resolver", title: "Knot Resolver", kind: peerKind, pkg: "knot-resolver", binary: "kresd", version: []string{"kresd", "--version"},
		processes: func(p *place) ([]program.Spec, error) {
			// The first policy that fits decides, so what it would say of .local is not asked.
			path, err := p.write("kresd.conf", fmt.Sprintf(`net.listen('127.0.0.1', %d, { kind = 'dns' })
trust_anchors.remove('.')
modules.unload('ta_update')
modules.unload('ta_signal_query')
modules.unload('priming')
modules.unload('detect_time_skew')
cache.size = %d * MB
policy.add(policy.all(policy.STUB('127.0.0.1@%d')))
`, p.port, 64+p.entries/1000, p.upstream))
			// Its workers are processes that share the port and the cache.
			var specs []program.Spec
			for range p.workers {
				specs = append(specs, program.Spec{Args: []string{"kresd", "-n", "-c", path, p.dir}})
			}
			return specs, err
		},
	},
	{
		name: "pdns-recursor", title: "PowerDNS Recursor", kind: peerKind, pkg: "pdns-recursor", binary: "pdns_recursor", version: []string{"pdns_recursor", "--version"},
		processes: func(p *place) ([]program.Spec, error) {
			_, err := p.write("recursor.conf", fmt.Sprintf(`local-address=127.0.0.1
local-port=%d
forward-zones-recurse=.=127.0.0.1:%d
dont-query=
dnssec=off
threads=%d
pdns-distributes-queries=no
reuseport=yes
security-poll-suffix=
max-cache-entries=%[4]d
max-packetcache-entries=%[4]d
socket-dir=%[5]s
daemon=no
write-pid=no
disable-syslog=yes
loglevel=3
quiet=yes
`, p.port, p.upstream, p.workers, max(500_000, 2*p.entries), p.dir))
			return []program.Spec{{Args: []string{"pdns_recursor", "--config-dir=" + p.dir}}}, err
		},
	},
	{
		name: "dnsmasq", title: "dnsmasq", kind: peerKind, pkg: "dnsmasq-base", binary: "dnsmasq", version: []string{"dnsmasq", "--version"}, most: 1,
		processes: func(p *place) ([]program.Spec, error) {
			path, err := p.write("dnsmasq.conf", fmt.Sprintf(`keep-in-foreground
port=%d
listen-address=127.0.0.1
bind-interfaces
no-resolv
no-hosts
server=127.0.0.1#%d
cache-size=%d
dns-forward-max=10000
user=root
pid-file=
`, p.port, p.upstream, max(10_000, 2*p.entries)))
			return []program.Spec{{Args: []string{"dnsmasq", "-C", path}}}, err
		},
	},
}
