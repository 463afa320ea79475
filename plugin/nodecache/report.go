package nodecache

import (
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/coredns/coredns/plugin/metrics/vars"
	"github.com/coredns/coredns/plugin/pkg/rcode"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// report counts answers of one zone in coredns_dns_*, as plugin prometheus does
// for those of the chain. Its metrics are looked up once.
type report struct {
	requests  [2][]prometheus.Counter // by family and named type; the last one is other's
	responses [16]prometheus.Counter
	do        prometheus.Counter
	duration  prometheus.Observer
	asked     prometheus.Observer
	answered  prometheus.Observer
}

// named are the types that plugin prometheus names; the others are "other".
var named = []uint16{
	dns.TypeA, dns.TypeAAAA, dns.TypePTR, dns.TypeSRV, dns.TypeHTTPS, dns.TypeCNAME, dns.TypeMX, dns.TypeTXT, dns.TypeNS,
	dns.TypeSOA, dns.TypeSVCB, dns.TypeDNSKEY, dns.TypeDS, dns.TypeNSEC3, dns.TypeNSEC, dns.TypeRRSIG,
}

func newReport(server, zone, answeredBy string) *report {
	const view, proto = "", "udp"
	r := &report{
		do:       vars.RequestDo.WithLabelValues(server, zone, view),
		duration: vars.RequestDuration.WithLabelValues(server, zone, view),
		asked:    vars.RequestSize.WithLabelValues(server, zone, view, proto),
		answered: vars.ResponseSize.WithLabelValues(server, zone, view, proto),
	}
	for i, family := range []string{"1", "2"} {
		for _, t := range named {
			r.requests[i] = append(r.requests[i], vars.RequestCount.WithLabelValues(server, zone, view, proto, family, dns.Type(t).String()))
		}
		r.requests[i] = append(r.requests[i], vars.RequestCount.WithLabelValues(server, zone, view, proto, family, "other"))
	}
	for i := range r.responses {
		r.responses[i] = vars.ResponseRcode.WithLabelValues(server, zone, view, rcode.ToString(i), answeredBy)
	}
	return r
}

// add counts one answer. Lengths are those of the packets.
func (r *report) add(t *tally, q *wire.Query, ipv4 bool, rcode byte, asked, answered int) {
	family := 1
	if ipv4 {
		family = 0
	}
	requests := r.requests[family]
	at := len(named)
	for i, n := range named {
		if n == q.Type {
			at = i
			break
		}
	}
	t.request.inc(requests[at])
	t.response.inc(r.responses[rcode])
	if q.DO {
		t.do.inc(r.do)
	}
	r.asked.Observe(float64(asked))
	r.answered.Observe(float64(answered))
}

// took counts how long an answer took.
func (r *report) took(d time.Duration) { r.duration.Observe(d.Seconds()) }

// tally adds up what goes to the same counters one after the other, as most of a
// batch does.
type tally struct{ request, response, do run }

func (t *tally) flush() {
	t.request.flush()
	t.response.flush()
	t.do.flush()
}

type run struct {
	of prometheus.Counter
	n  int
}

func (r *run) inc(c prometheus.Counter) {
	if r.of != c {
		r.flush()
		r.of = c
	}
	r.n++
}

func (r *run) flush() {
	if r.n > 0 {
		r.of.Add(float64(r.n))
		r.n = 0
	}
}
