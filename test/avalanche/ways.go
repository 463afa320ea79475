package main

import (
	"fmt"
	"strings"

	"firebreakdns.io/firebreak/test/bench/chart"
)

// way is how pods get their answers.
type way struct {
	name, title string
	nameserver  string   // in the pods' resolv.conf
	needs       []string // plugins
	corefile    func(dir string) string
	ink         chart.Ink
	dash        string
}

var allWays = []way{
	{name: "service", title: "straight to the Service", nameserver: serviceIP, ink: chart.Stock},
	{
		// The addon's Corefile: the cluster's names over TCP to the Service, all
		// others to the node's own resolver.
		name: "nodelocal", title: "NodeLocal DNSCache's Corefile", nameserver: nodeLocalIP, ink: chart.Third, dash: "7 4",
		corefile: func(string) string {
			block := func(zone, cache, upstream string) string {
				return fmt.Sprintf("%s:53 {\n    errors\n%s    reload\n    loop\n    bind %s\n    forward . %s\n    prometheus %s:9253\n}\n", zone, cache, nodeLocalIP, upstream, nodeLocalIP)
			}
			tcp := serviceIP + " {\n        force_tcp\n    }"
			return block("cluster.local", "    cache {\n        success 9984 30\n        denial 9984 5\n    }\n", tcp) +
				block("in-addr.arpa", "    cache 30\n", tcp) + block("ip6.arpa", "    cache 30\n", tcp) +
				block(".", "    cache 30\n", outside)
		},
	},
	{
		// The same, but asking the servers themselves. Their list is fixed: that
		// nobody takes the dead one out of it is worse than in a cluster.
		name: "ours", title: "Firebreak node cache", nameserver: nodeLocalIP, ink: chart.Ours, needs: []string{"nodecache", "hedge"}, dash: "",
		corefile: func(string) string {
			var servers []string
			for i := range serverCount {
				servers = append(servers, serverAddr(i))
			}
			block := func(zone, from, upstreams string) string {
				return fmt.Sprintf("%s:53 {\n    errors\n    bind %s\n    clients\n    prometheus %s:9253\n    nodecache\n    hedge %s %s\n}\n", zone, nodeLocalIP, nodeLocalIP, from, upstreams)
			}
			return block("cluster.local", "cluster.local", strings.Join(servers, " ")) + block(".", ".", outside)
		},
	},
}

func wayNames() (names []string) {
	for _, w := range allWays {
		names = append(names, w.name)
	}
	return names
}

func wayNamed(name string) *way {
	for i := range allWays {
		if allWays[i].name == name {
			return &allWays[i]
		}
	}
	return nil
}
