package standalone

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
)

// seenFor is how long seen tables that were read are shown: who reloads a page
// does not make every server tell its whole table.
const seenFor = 2 * time.Second

// seenTables are the servers' seen tables, as they were read last.
type seenTables struct {
	mu      sync.Mutex
	at      time.Time
	facts   run.Facts
	unheard []string
}

func (c *Controller) seen(ctx context.Context) (run.Facts, []string) {
	t := &c.tables
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := c.now(); now.Sub(t.at) > seenFor {
		f := c.current()
		t.facts = f.Facts(now)
		t.unheard = []string{}
		// For the next one who asks too, so this one's going away ends nothing.
		failed := f.AddSeen(context.WithoutCancel(ctx), &t.facts)
		for _, s := range t.facts.Servers {
			if failed[s.Name] != nil {
				t.unheard = append(t.unheard, s.Name)
			}
		}
		t.at = c.now()
	}
	return t.facts, t.unheard
}

func (c *Controller) getClients(w http.ResponseWriter, r *http.Request, _ who) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	facts, unheard := c.seen(r.Context())
	byAddress := map[string]*view.Client{}
	for i := range facts.Servers {
		s := &facts.Servers[i]
		for _, x := range s.Seen {
			m := byAddress[x.Address]
			if m == nil {
				m = &view.Client{Address: x.Address, Name: facts.Names[x.Address], First: x.First, Last: x.Last}
				byAddress[x.Address] = m
			}
			if x.First.Before(m.First) {
				m.First = x.First
			}
			if x.Last.After(m.Last) {
				m.Last = x.Last
			}
			m.Queries, m.Answers, m.Errors, m.Retries = m.Queries+x.Queries, m.Answers+x.Answers, m.Errors+x.Errors, m.Retries+x.Retries
			m.Servers = append(m.Servers, s.Name)
		}
	}
	out := view.ClientList{Clients: []view.Client{}, Unheard: unheard}
	for _, m := range byAddress {
		out.Clients = append(out.Clients, *m)
	}
	slices.SortFunc(out.Clients, func(a, b view.Client) int { return compareAddress(a.Address, b.Address) })
	return answer(w, http.StatusOK, out)
}

func (c *Controller) getAffinity(w http.ResponseWriter, r *http.Request, _ who) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	facts, unheard := c.seen(r.Context())
	out := view.AffinityList{Servers: []string{}, Clients: []view.Affinity{}, Unheard: unheard}
	for _, s := range facts.Servers {
		out.Servers = append(out.Servers, s.Name)
	}
	rows := map[string]*view.Affinity{}
	answered := map[string]int{} // by how many servers
	for i := range facts.Servers {
		for _, x := range facts.Servers[i].Seen {
			a := rows[x.Address]
			if a == nil {
				a = &view.Affinity{Address: x.Address, Name: facts.Names[x.Address], Queries: make([]uint64, len(out.Servers))}
				rows[x.Address] = a
			}
			for _, day := range x.Daily {
				a.Queries[i] += uint64(day)
			}
			if x.Answers > 0 {
				answered[x.Address]++
			}
			if x.Last.After(a.Last) {
				a.Last = x.Last
			}
		}
	}
	for address, a := range rows {
		var all, most uint64
		for i, n := range a.Queries {
			all += n
			if n > most {
				most, a.Favourite = n, out.Servers[i]
			}
		}
		if all > 0 {
			a.Share = float64(most) / float64(all)
		}
		a.SingleHomed = answered[address] < 2
		out.Clients = append(out.Clients, *a)
	}
	slices.SortFunc(out.Clients, func(a, b view.Affinity) int { return compareAddress(a.Address, b.Address) })
	return answer(w, http.StatusOK, out)
}

func compareAddress(a, b string) int {
	x, _ := netip.ParseAddr(a)
	y, _ := netip.ParseAddr(b)
	return x.Compare(y)
}
