package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"time"
)

// lookedUp is one lookup of an application, as the herd writes it down.
type lookedUp struct {
	Begun  float64 `json:"begun"` // seconds since the herd's start
	Took   float64 `json:"took"`  // seconds
	OK     bool    `json:"ok"`
	Pod    int     `json:"pod"`
	Again  int     `json:"again"` // how often it had been tried before
	Wanted int     `json:"wanted"`
	Sent   int     `json:"sent"`
}

// patience is how long after the end lookups are waited for: two timeouts of
// glibc's. What is still waiting then has failed.
const patience = 12 * time.Second

// againAfter is how long an application waits before it tries again.
const againAfter = 500 * time.Millisecond

// herd is the part of the clients. Lookups begin at random times of a fixed mean
// rate, whatever became of those before: a service gets its requests whether or
// not its own lookups hang.
func herd(args []string) error {
	flags := flag.NewFlagSet("clients", flag.ContinueOnError)
	server := flags.String("server", "", "address and port of the only nameserver")
	rate := flags.Float64("rate", 0, "lookups a second")
	pods := flags.Int("pods", 1, "clients")
	begin := flags.Int64("begin", 0, "start, Unix time in nanoseconds")
	length := flags.Duration("length", 0, "how long lookups begin")
	timeout := flags.Duration("timeout", 5*time.Second, "the stub's")
	again := flags.Int("again", 0, "tries of an application after the first")
	seed := flags.Uint64("seed", 1, "of when and what is asked")
	if err := flags.Parse(args); err != nil {
		return err
	}
	to, err := netip.ParseAddrPort(*server)
	if err != nil {
		return err
	}
	start := time.Unix(0, *begin)
	end := start.Add(*length)
	ctx, cancel := context.WithDeadline(context.Background(), end.Add(patience))
	defer cancel()
	p := newPlan(*seed, *rate, *pods)
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	var wg sync.WaitGroup
	for at := start; ; {
		at = at.Add(p.gap())
		if !at.Before(end) {
			break
		}
		pod, name, pause := p.next()
		time.Sleep(time.Until(at))
		wg.Go(func() {
			s := &stub{local: podAddr(pod), server: to, timeout: *timeout}
			for try := range *again + 1 {
				began := time.Now()
				l := s.lookup(ctx, name)
				one := lookedUp{
					Begun: began.Sub(start).Seconds(), Took: time.Since(began).Seconds(), OK: l.ok,
					Pod: pod, Again: try, Wanted: l.wanted, Sent: l.sent,
				}
				mu.Lock()
				err := out.Encode(one)
				mu.Unlock()
				if err != nil || l.ok || time.Now().After(end) {
					return
				}
				time.Sleep(againAfter + pause)
			}
		})
	}
	wg.Wait()
	return nil
}

// plan is when and what is asked: the same for the same seed.
type plan struct {
	random        *rand.Rand
	rate          float64
	pods          int
	inside, world *rand.Zipf
}

func newPlan(seed uint64, rate float64, pods int) *plan {
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it has to be the same again
	return &plan{random: r, rate: rate, pods: pods, inside: rand.NewZipf(r, 1.1, 1, services-1), world: rand.NewZipf(r, 1.1, 1, sites-1)}
}

// gap to the next lookup.
func (p *plan) gap() time.Duration {
	return time.Duration(p.random.ExpFloat64() / p.rate * float64(time.Second))
}

// next is who asks for what, and how much longer than others it waits to try again.
func (p *plan) next() (pod int, name string, pause time.Duration) {
	pod = p.random.IntN(p.pods)
	pause = time.Duration(p.random.Float64() * float64(againAfter))
	if p.random.Float64() < worldShare {
		return pod, siteName(int(p.world.Uint64())), pause //nolint:gosec // below sites
	}
	return pod, serviceName(int(p.inside.Uint64())), pause //nolint:gosec // below services
}

// worldShare of lookups is for names elsewhere.
const worldShare = 0.5

// queriesPerLookup on the average, if all is well: two for a service, and for a
// site two for each name of the search list and for its own.
const queriesPerLookup = 2*(1-worldShare) + 2*4*worldShare

// readLookups are what a herd wrote down.
func readLookups(r io.Reader) (all []lookedUp, err error) {
	for d := json.NewDecoder(r); ; {
		var one lookedUp
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
}
