package main

// work is a kind of load.
type work struct {
	name, title string
	workers     int
	client      client
	rate        int // questions a second; 0: as fast as they are answered
	window      int // questions out on each of the sockets or connections
	sockets     int
	fresh       bool // each name once: a miss
	secure      bool
	streams     bool // only for servers that are measured there
	// only these servers, and so many times as many rounds, of their own: what lies
	// close together needs more of them.
	only  []string
	times int
}

// client that makes the load.
type client string

const (
	udpClient     client = "load"
	streamClient  client = "stream"
	dnsperfClient client = "dnsperf"
)

// The works, and what each is for.
var works = []work{
	// The highest rate, and what an answer costs at it: batches are full.
	{name: "peak", title: "as fast as it can", workers: 1, client: udpClient, window: 64, sockets: 16},
	// A node's real rate: batches are of one, and waking up is the cost.
	{name: "5k", title: "5,000 a second", workers: 1, client: udpClient, rate: 5000, sockets: 16},
	// The base for two workers.
	{name: "100k", title: "100,000 a second", workers: 1, client: udpClient, rate: 100_000, sockets: 16},
	// A second opinion; it is itself saturated near 115,000 a second.
	{name: "dnsperf", title: "dnsperf", workers: 1, client: dnsperfClient, window: 64, sockets: 16},
	{name: "100k-2", title: "100,000 a second, two workers", workers: 2, client: udpClient, rate: 100_000, sockets: 16},
	{name: "peak-2", title: "as fast as it can, two workers", workers: 2, client: udpClient, window: 64, sockets: 16},
	// What clients and drill cost.
	{name: "pairs", title: "with clients and drill, and without", workers: 1, client: udpClient, window: 64, sockets: 16, only: []string{"ours", "ours-bare"}, times: 3},
	// The slow way: what does not come from the cache, or not over UDP.
	{name: "miss", title: "misses", workers: 1, client: udpClient, window: 8, sockets: 16, fresh: true, streams: true},
	{name: "tcp", title: "TCP, cached", workers: 1, client: streamClient, window: 16, sockets: 16, streams: true},
	{name: "tls", title: "DNS over TLS, cached", workers: 1, client: streamClient, window: 16, sockets: 16, secure: true, streams: true},
}

// Two further works are not loads that are repeated in rounds.
const (
	memoryWork = "memory"
	coldWork   = "cold"
)

func workNames() (names []string) {
	for _, w := range works {
		names = append(names, w.name)
	}
	return append(names, memoryWork, coldWork)
}

func workNamed(name string) *work {
	for i := range works {
		if works[i].name == name {
			return &works[i]
		}
	}
	return nil
}
