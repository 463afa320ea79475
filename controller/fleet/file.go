package fleet

import (
	"firebreakdns.io/firebreak/controller/run"
)

// File is a fleet file as it is written. Paths in it are relative to its folder.
type File struct {
	// Fleet is its name: 1 to 32 of a-z, 0-9 and -. It stands in logs, metrics
	// and orders, and decides the day of monthly schedules.
	Fleet string `json:"fleet"`
	// Drills switches drills on. It is watched: switching it off stops a drill.
	Drills Drills `json:"drills"`
	// Servers in the order in which clients ask them. Two at least, or there
	// would be nobody to fail over to.
	Servers []Server `json:"servers"`
	// Balancer says that something takes servers out of use by asking their
	// readiness. Then a server is to have "ready { monitor continuously }".
	Balancer bool `json:"balancer"`
	// Service are the balancer's own DNS addresses, IP or IP:PORT: monitors ask
	// them. Without, monitors ask the servers in turn as resolv.conf does.
	Service []string `json:"service"`
	// Groups of clients by name; members are addresses, prefixes and names.
	Groups map[string][]string `json:"groups"`
	// Names of clients, each with its addresses.
	Names map[string][]string `json:"names"`
	// Hosts is a file in the form of /etc/hosts with more names of clients.
	Hosts string `json:"hosts"`
	// Infrastructure are addresses and prefixes that no drill ever touches.
	Infrastructure []string `json:"infrastructure"`
	// Window in which drills may start and must be able to finish. None: always.
	Window *run.Window `json:"window"`
	// TLS is what the controller shows servers, and whom it believes. Needed
	// for control endpoints on https://.
	TLS *TLS `json:"tls"`
	// API is where the controller itself is asked.
	API API `json:"api"`
	// Metrics is where it can be scraped without a certificate.
	Metrics Metrics `json:"metrics"`
	// Monitors are looked up by every run that names none of its own.
	Monitors []run.Monitor `json:"monitors"`
	// Probe is the controller's own DNS question.
	Probe Probe `json:"probe"`
	// Schedules start drills by themselves, unless they are suspended (the default).
	Schedules []run.Schedule `json:"schedules"`
}

// Drills of a fleet file.
type Drills struct {
	Enabled bool `json:"enabled"` // false unless it says true
}

// Server of a fleet file.
type Server struct {
	Name    string   `json:"name"`    // 1 to 40 of a-z, 0-9, '.' and '-'
	DNS     []string `json:"dns"`     // its DNS addresses, IP or IP:PORT (53)
	Control string   `json:"control"` // its control endpoint: https://HOST:PORT or unix:///PATH
	Ready   string   `json:"ready"`   // its readiness URL, http://HOST:8181/ready; none: not asked
}

// TLS are PEM files.
type TLS struct {
	CA   string `json:"ca"`   // who issues the other side's certificates
	Cert string `json:"cert"` // ours, with intermediates after it
	Key  string `json:"key"`  // its private key
}

// API of a fleet file.
type API struct {
	// Listen is IP:PORT, or unix:///PATH. None: api.sock in the state folder.
	Listen string `json:"listen"`
	// TLS of IP:PORT. A unix socket takes none: its mode 0600 says who may.
	TLS *TLS `json:"tls"`
	// Roles by the callers' names in their certificates. Who is in none is
	// refused. On a unix socket whoever may open it is an operator.
	Roles Roles `json:"roles"`
}

// Roles of callers.
type Roles struct {
	Viewer    []string `json:"viewer"`    // may read
	Operator  []string `json:"operator"`  // may read, plan, start and stop
	Assistant []string `json:"assistant"` // may read and plan
}

// Metrics of a fleet file.
type Metrics struct {
	// Listen is IP:PORT for plain HTTP, /metrics only. None: metrics are on the
	// API alone.
	Listen string `json:"listen"`
}

// Probe of a fleet file.
type Probe struct {
	Name string `json:"name"` // "." where it is left out
	Type string `json:"type"` // NS where it is left out
}
