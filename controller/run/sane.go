package run

import "firebreakdns.io/firebreak/plugin/pkg/protocol"

// mostCounted is beyond what a server can count of one client in a recording.
const mostCounted = 1 << 40

// sane is a recording without what cannot be true: it comes from another
// machine, and one broken or hostile server must not end the judging of the
// rest. Clients without an address are left out, the second one of the same
// address too; counts and times are held to what is possible.
func sane(rec protocol.Recording) protocol.Recording {
	known := make(map[string]bool, len(rec.Clients))
	clients := make([]protocol.RecordedClient, 0, len(rec.Clients))
	for _, c := range rec.Clients {
		addr, ok := parseAddr(c.Address)
		if !ok || known[addr.String()] {
			continue
		}
		c.Address = addr.String()
		known[c.Address] = true
		c.Drilled = min(c.Drilled, mostCounted)
		c.DrilledQuestions = min(c.DrilledQuestions, c.Drilled)
		c.SampleBits = max(0, min(c.SampleBits, 63))
		for _, ms := range []*int64{&c.FirstMs, &c.LastMs, &c.FirstAnswerMs, &c.LastAnswerMs, &c.FirstDrilledMs, &c.LastDrilledMs, &c.AnsweredAfterMs, &c.SamplesUntilMs} {
			*ms = possible(*ms)
		}
		samples := make([]protocol.Sample, 0, len(c.Samples))
		for _, s := range c.Samples[:min(len(c.Samples), protocol.SamplesPerClient)] {
			s.FirstMs, s.LastMs = possible(s.FirstMs), possible(s.LastMs)
			samples = append(samples, s)
		}
		c.Samples = samples
		clients = append(clients, c)
	}
	rec.Clients = clients
	return rec
}

// possible is a time in Unix ms between 1970 and the year 6000, so that sums
// with offsets do not overflow.
func possible(ms int64) int64 { return max(0, min(ms, 1<<47)) }
