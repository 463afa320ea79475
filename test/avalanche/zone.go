package main

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

// Names of the cluster, and of the world.
const (
	clusterZone = "cluster.local."
	services    = 2000 // that the cluster has
	sites       = 5000 // that applications ask for elsewhere
)

// search is a pod's search list, in the namespace app.
var search = []string{"app.svc.cluster.local.", "svc.cluster.local.", "cluster.local."}

// serviceName is what an application calls a service of its own namespace.
func serviceName(i int) string { return fmt.Sprintf("service-%d", i) }

// siteName is what it calls a host elsewhere: with fewer dots than ndots:5 has,
// so that the search list is tried first.
func siteName(i int) string { return fmt.Sprintf("site-%d.example.org", i) }

// TTLs as cluster DNS has them (plugin kubernetes, as kubeadm sets it up), and
// usual ones elsewhere.
const (
	clusterTTL = 30
	worldTTL   = 60
)

// zoneAnswer appends the answer to a query, as cluster DNS and the world behind
// it would give it; nothing if it is none.
func zoneAnswer(query, out []byte) []byte {
	var q dns.Msg
	if err := q.Unpack(query); err != nil || q.Response || len(q.Question) != 1 {
		return out
	}
	r := new(dns.Msg).SetReply(&q)
	r.RecursionAvailable, r.Compress = true, true
	if q.IsEdns0() != nil {
		r.SetEdns0(1232, false)
	}
	name, qtype := strings.ToLower(q.Question[0].Name), q.Question[0].Qtype
	cluster := dns.IsSubDomain(clusterZone, name)
	ttl, zone := uint32(worldTTL), "example.org."
	if cluster {
		ttl, zone = clusterTTL, clusterZone
	}
	exists := !cluster || name == clusterZone || strings.HasPrefix(name, "service-") && strings.HasSuffix(name, "."+search[0])
	switch {
	case exists && qtype == dns.TypeA && name != clusterZone:
		r.Answer = []dns.RR{&dns.A{
			Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: ttl},
			A:   []byte{192, 0, 2, 1},
		}}
	default:
		if !exists {
			r.Rcode = dns.RcodeNameError
		}
		soa := &dns.SOA{
			Hdr: dns.RR_Header{Name: zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl},
			Ns:  "ns." + zone, Mbox: "hostmaster." + zone, Serial: 1, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: ttl,
		}
		if qtype == dns.TypeSOA && name == zone {
			r.Answer = []dns.RR{soa}
		} else {
			r.Ns = []dns.RR{soa}
		}
	}
	packed, err := r.PackBuffer(out[:cap(out)])
	if err != nil {
		return out
	}
	return packed
}
