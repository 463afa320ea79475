package demo

import (
	"fmt"
	"net/netip"
	"strings"

	"firebreakdns.io/firebreak/controller/run"
)

// say tells a part of the story.
func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.options.Story, format+"\n", args...) }

// in writes text in a color of the terminal's, where there are colors.
func (d *demo) in(code, text string) string {
	if !d.options.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (d *demo) bold(text string) string { return d.in("1", text) }
func (d *demo) dim(text string) string  { return d.in("2", text) }

func (d *demo) verdict(v run.Verdict) string {
	code := "2"
	switch v {
	case run.Followed:
		code = "32"
	case run.Stuck:
		code = "31"
	case run.Unknown:
		code = "33"
	}
	return d.in(code, fmt.Sprintf("%-9s", v))
}

func (d *demo) introduce() {
	d.say("%s", d.bold("What happens to your clients when a DNS server dies?"))
	d.say("")
	d.say("Most of them know a second server. Whether they use it is a guess until it is tried.")
	d.say("A drill tries it: one server stays silent for some seconds, and you see who moved on.")
	d.say("")
	d.say("On this machine, in %s (loopback; nothing else is touched), start", d.world.network)
	var names []string
	for _, s := range d.world.servers {
		names = append(names, s.name)
	}
	d.say("  %-22s %s: CoreDNS with `clients`, `drill` and `control`", fmt.Sprintf("%d DNS servers", len(names)), strings.Join(names, ", "))
	d.say("  %-22s calls them by certificates made just now", "a controller")
	d.say("  %-22s", fmt.Sprintf("%d clients", len(d.cast)))
	for _, p := range d.cast {
		if p.about != "" {
			d.say("    %-20s %s", p.name, d.dim(p.about))
		}
	}
	d.say("    %-20s %s", fmt.Sprintf("office-01 to -%02d", crowd), d.dim("some like glibc with timeout:1, some like musl"))
	d.say("")
}

func (d *demo) announce() {
	d.say("%s  firebreak drill start %s --everyone --duration %ds --mode drop", d.bold("The drill:"), d.drilled().name, drillSeconds)
	d.say("%s", d.dim(fmt.Sprintf("Real waits are longer: 30 s of reading before, 60 s after, who returned after 15 min. Here: %d s, %d s, %d s.", readSeconds, tailSeconds, returnSeconds)))
	d.say("")
}

// judge tells verdict by verdict what the report says and what the client saw,
// and returns what differs.
func (d *demo) judge(r *run.Report) []string {
	var differs []string
	if r.Started == nil || r.Ended == nil {
		return []string{fmt.Sprintf("there was no outage: %s (%s: %s)", r.Outcome, r.Reason, r.Message)}
	}
	clients := map[string]*run.ClientReport{}
	for i := range r.Clients {
		clients[r.Clients[i].Address] = &r.Clients[i]
	}
	known := map[string]bool{}
	var crowdAgrees int
	d.say("%s", d.bold("What the report says, and what each client saw by its own log:"))
	d.say("")
	for _, p := range d.cast {
		known[p.address.String()] = true
		c := clients[p.address.String()]
		f := recall(p.lookups(), d.drilled().dns, *r.Started, *r.Ended)
		diff := compare(p, f, c)
		if diff != "" {
			differs = append(differs, p.name+": "+diff)
		}
		switch {
		case p.about == "" && diff == "":
			crowdAgrees++
		case p.about == "" || c == nil:
			continue
		default:
			took := ""
			if c.FailoverSeconds != nil {
				took = fmt.Sprintf("%.1f s", *c.FailoverSeconds)
			}
			d.say("  %-11s %s %6s   %s", p.name, d.verdict(c.Verdict), took, f.words(d.nameOf)+d.afterwards(c, f))
		}
	}
	d.say("  %-11s %s %6s   %s", "office", d.verdict(run.Followed), "", fmt.Sprintf("%d of %d, by their own logs too", crowdAgrees, crowd))
	d.say("")
	for _, c := range r.Clients {
		if !known[c.Address] {
			differs = append(differs, fmt.Sprintf("%s is in the report, and no client of the demo", c.Address))
		}
	}
	if r.Outcome != run.Failed || r.Reason != run.ClientsStuck {
		differs = append(differs, fmt.Sprintf("the drill %s with %s (%s), expected it to fail with %s", r.Outcome, r.Reason, r.Message, run.ClientsStuck))
	}
	return differs
}

// afterwards is whether a client came back, where that says something.
func (d *demo) afterwards(c *run.ClientReport, f felt) string {
	switch {
	case c.Verdict != run.Followed:
		return ""
	case c.Returned == run.Returned && f.Back:
		return "; back on " + d.drilled().name + " since"
	case c.Returned == run.Sticky && !f.Back:
		return "; still there"
	}
	return ""
}

func (d *demo) nameOf(a netip.AddrPort) string {
	for _, s := range d.world.servers {
		if s.dns == a {
			return s.name
		}
	}
	return a.String()
}

func (d *demo) conclude(r *run.Report, page string) {
	coverage := "not known"
	if r.Coverage != nil {
		coverage = fmt.Sprintf("%d of %d clients followed", r.Verdicts.Followed, r.Verdicts.Followed+r.Verdicts.Stuck)
	}
	d.say("%s  %s; questions that nobody answered: %d.", d.bold("In all:"), coverage, r.Lost)
	if r.Outcome == run.Failed && r.Reason == run.ClientsStuck {
		d.say("The drill %s, as it should: the thermostat has no DNS when %s is gone. Better to", d.in("31", "failed"), d.drilled().name)
		d.say("learn that today, for %d seconds, than from an outage. (Give it a second server.)", drillSeconds)
	}
	d.say("")
	d.say("The whole report, as a page:  %s", d.bold(page))
	d.say("")
	d.say("%s", d.bold("On your own servers:"))
	d.say("  firebreak certs ./certs --server ns1,ns2 --operator $USER   certificates, and what goes where")
	d.say("  firebreak drill plan ns1 --clients YOUR-LAPTOP              who would be drilled; changes nothing")
	d.say("  firebreak drill start ns1 --clients YOUR-LAPTOP             begin with one client")
	d.say("  firebreak demo -o json                                      this demo for scripts")
}
