package nodecache

import "github.com/miekg/dns"

const (
	// noSOA is how long a denial without a SOA record is kept, in seconds.
	noSOA = 5
	// briefly is how long it is remembered that no server answered, or that one
	// refused, in seconds: the least that RFC 9520, 3.2 allows.
	briefly = 1
)

// lifetimes say how long answers are fresh, by what they say.
type lifetimes struct {
	positive, negative limits
	failure            uint32 // seconds
}

// classify says what an answer says. It does not look at TTLs.
func classify(m *dns.Msg) kind {
	switch m.Rcode {
	case dns.RcodeNameError:
		return nxdomain
	case dns.RcodeServerFailure, dns.RcodeRefused:
		return failure
	case dns.RcodeSuccess:
	default:
		return unstored // FORMERR, NOTIMP: about the question as it was sent
	}
	q := &m.Question[0]
	for _, rr := range m.Answer {
		if t := rr.Header().Rrtype; t == q.Qtype || q.Qtype == dns.TypeRRSIG {
			return positive
		}
	}
	if len(m.Answer) > 0 && !hasSOA(m) {
		// A chain of CNAMEs or DNAMEs that whoever answered did not follow: it is
		// what there is, and no denial.
		return positive
	}
	return nodata
}

func hasSOA(m *dns.Msg) bool {
	for _, rr := range m.Ns {
		if rr.Header().Rrtype == dns.TypeSOA {
			return true
		}
	}
	return false
}

// answers says whether m is an answer to the question q.
func answers(m *dns.Msg, q *dns.Question) bool {
	return m.Response && len(m.Question) == 1 && m.Question[0].Qtype == q.Qtype && m.Question[0].Qclass == q.Qclass &&
		dns.CanonicalName(m.Question[0].Name) == dns.CanonicalName(q.Name)
}
