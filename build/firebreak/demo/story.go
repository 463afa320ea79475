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
	for _, line := range lines("What happens to your clients when a DNS server dies?", d.width()) {
		d.say("%s", d.bold(line))
	}
	d.say("")
	d.tell("Most of them know a second server. Whether they use it is a guess until it is tried. " +
		"A drill tries it: one server stays silent for some seconds, and you see who moved on.")
	d.say("")
	d.tell("On this machine, in %s (loopback; nothing else is touched), start", d.world.network)
	var names []string
	for _, s := range d.world.servers {
		names = append(names, s.name)
	}
	d.labelled(2, fmt.Sprintf("%d DNS servers", len(names)), 20, strings.Join(names, ", ")+": CoreDNS with `clients`, `drill` and `control`", unpainted)
	d.labelled(2, "a controller", 20, "calls them by certificates made just now", unpainted)
	d.labelled(2, fmt.Sprintf("%d clients", len(d.cast)), 20, "", unpainted)
	for _, p := range d.cast {
		if p.about != "" {
			d.labelled(4, p.name, 18, p.about, d.dim)
		}
	}
	d.labelled(4, fmt.Sprintf("office-01 to -%02d", crowd), 18, "some like glibc with timeout:1, some like musl", d.dim)
	d.say("")
}

func (d *demo) announce() {
	command := fmt.Sprintf("firebreak drill start %s --everyone --duration %ds --mode drop", d.drilled().name, drillSeconds)
	d.entry(d.bold("The drill:")+"  ", len("The drill:  "), command, unpainted)
	for _, line := range lines(fmt.Sprintf("Real waits are longer: 30 s of reading before, 60 s after, who returned after 15 min. Here: %d s, %d s, %d s.", readSeconds, tailSeconds, returnSeconds), d.width()) {
		d.say("%s", d.dim(line))
	}
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
				took = run.Seconds(*c.FailoverSeconds)
			}
			d.saw(p.name, c.Verdict, took, f.words(d.nameOf)+d.afterwards(c, f))
		}
	}
	d.saw("office", run.Followed, "", fmt.Sprintf("%d of %d, by their own logs too", crowdAgrees, crowd))
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

// saw is one client's line: what the report says, and what it saw itself.
func (d *demo) saw(name string, v run.Verdict, took, words string) {
	shown := fmt.Sprintf("  %-11s %s %7s   ", name, d.verdict(v), took)
	d.entry(shown, 2+11+1+9+1+7+3, words, unpainted)
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
	d.entry(d.bold("In all:")+"  ", len("In all:  "), coverage+"; "+unanswered(r.Lost)+".", unpainted)
	if r.Outcome == run.Failed && r.Reason == run.ClientsStuck {
		d.tell("The drill failed, as it should: the thermostat has no DNS when %s is gone. Better to "+
			"learn that today, for %d seconds, than from an outage. (Give it a second server.)", d.drilled().name, drillSeconds)
	}
	d.say("")
	d.entry("The whole report, as a page:  ", len("The whole report, as a page:  "), page, d.bold)
	d.say("")
	d.say("%s", d.bold("On your own servers:"))
	for _, x := range []struct{ command, does string }{
		{"firebreak certs ./certs --server ns1,ns2 --operator $USER", "certificates, and what goes where"},
		{"firebreak drill plan ns1 --clients YOUR-LAPTOP", "who would be drilled; changes nothing"},
		{"firebreak drill start ns1 --clients YOUR-LAPTOP", "begin with one client"},
		{"firebreak demo -o json", "this demo for scripts"},
	} {
		d.labelled(2, x.command, 57, x.does, unpainted)
	}
}

// unanswered says how many questions nobody answered. Lookups are what clients
// count, and each of theirs is two questions.
func unanswered(lost *int) string {
	if lost == nil {
		return "how many questions nobody answered is not known"
	}
	return fmt.Sprintf("questions that nobody answered: %d (a lookup asks two, for A and for AAAA)", *lost)
}
