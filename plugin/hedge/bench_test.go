package hedge

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/upstream"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/forward"
	"github.com/coredns/coredns/plugin/pkg/proxy"

	"github.com/miekg/dns"
)

// BenchmarkMiss is a question that is asked of an upstream, by hedge and by
// forward, one after the other and many at once. The upstream is in the same
// process and the same for both: the difference is what counts. cpu-us is the
// processor time of all of it.
func BenchmarkMiss(b *testing.B) {
	for _, over := range []string{"udp", "tcp"} {
		u := upstream.Run(b, "")
		block := ""
		if over == "tcp" {
			block = " {\nforce_tcp\n}"
		}
		serve(b, "hedge . "+u.Addr()+block)
		f := forward.New()
		f.SetProxy(proxy.NewProxy("forward", u.Addr(), "dns"))
		f.SetProxyOptions(proxy.Options{ForceTCP: over == "tcp"})
		defer f.OnShutdown()
		for _, h := range []plugin.Handler{&Hedge{groups: []*group{groupOf(b)}}, f} {
			for _, many := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/%s/many=%v", over, h.Name(), many), func(b *testing.B) {
					b.ReportAllocs()
					before := cpu()
					one := func() {
						w := &writer{}
						if _, err := h.ServeDNS(context.Background(), w, new(dns.Msg).SetQuestion("a.test.", dns.TypeA)); err != nil || w.Msg.Rcode != 0 {
							b.Error(err, w.Msg)
						}
					}
					if many {
						b.SetParallelism(16)
						b.RunParallel(func(pb *testing.PB) {
							for pb.Next() {
								one()
							}
						})
					} else {
						for range b.N {
							one()
						}
					}
					b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-us/op")
				})
			}
		}
	}
}

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for itself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
