package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"firebreakdns.io/firebreak/build/firebreak/client"
	"firebreakdns.io/firebreak/controller/fleet"
	"firebreakdns.io/firebreak/controller/pki"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

// keyPair is the name under which a pair is saved: tls.crt and tls.key, as a
// Kubernetes TLS secret calls them.
var keyPair = strings.TrimSuffix(client.FileCert, ".crt")

// role is what people may do at the controller's API.
type role struct {
	name string
	may  string
	who  []string
}

func (a *app) certs() *cobra.Command {
	var servers, hosts []string
	var days int
	roles := []*role{
		{name: "viewer", may: "may look"},
		{name: "operator", may: "may look, plan, start and stop"},
		{name: "assistant", may: "may look and plan"},
	}
	cmd := &cobra.Command{
		Use:   "certs DIR",
		Short: "Make the certificates of a fleet: servers, controller, people",
		Long: `Make a small CA in a folder, and with it a certificate for each DNS server, for
the controller (as the one who calls servers, and as the API that people call),
and for people by name and role.

What is there stays as it is: nothing is ever overwritten. Run it again with the
same folder for one more server or person. To renew a certificate, move its
folder away first.

Keep DIR/ca safe: who has ca.key can start drills as anybody.`,
		Example: a.examples(`
			firebreak certs ./certs --server ns1,ns2 --operator alice --viewer bob
			firebreak certs ./certs --server ns3
			firebreak certs ./certs --api-host dns.example.com,192.0.2.9
			firebreak servers --certs ./certs/people/alice --controller https://192.0.2.9:9354`),
		Args: oneArg("folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			if days < 1 || time.Duration(days)*24*time.Hour > pki.MaxValidity {
				return usage("--days %d: use 1 to %d", days, pki.MaxValidity/(24*time.Hour))
			}
			m := &maker{a: a, dir: args[0], validity: time.Duration(days) * 24 * time.Hour}
			return m.all(servers, hosts, roles)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&servers, "server", nil, "names of DNS servers, as in the fleet file")
	f.StringSliceVar(&hosts, "api-host", []string{"localhost", "127.0.0.1"}, "host names and addresses of the API, for programs that check those")
	f.IntVar(&days, "days", int(pki.DefaultValidity/(24*time.Hour)), "how long certificates last")
	for _, r := range roles {
		f.StringSliceVar(&r.who, r.name, nil, "names of people or programs that "+r.may)
	}
	return cmd
}

// maker makes what is not there yet.
type maker struct {
	a        *app
	dir      string
	validity time.Duration
	ca       *pki.CA
}

func (m *maker) all(servers, hosts []string, roles []*role) error {
	if err := m.authority(); err != nil {
		return err
	}
	for _, s := range servers {
		if err := fleet.CheckServerName(s); err != nil {
			return usage("--server: %v", err)
		}
		if err := m.pair(filepath.Join("servers", s), "copy to the server "+s, func() (*pki.Pair, error) { return m.ca.Server(m.validity) }); err != nil {
			return err
		}
	}
	if err := m.pair("controller", "the controller, to call servers", func() (*pki.Pair, error) { return m.ca.Client(m.validity, "controller") }); err != nil {
		return err
	}
	if err := m.pair("api", "the controller, for its own API", func() (*pki.Pair, error) { return m.ca.API(m.validity, hosts...) }); err != nil {
		return err
	}
	for _, r := range roles {
		for _, who := range r.who {
			if err := mtls.CheckName(who); err != nil {
				return usage("--%s: %v", r.name, err)
			}
			if err := m.pair(filepath.Join("people", who), who+", who "+r.may, func() (*pki.Pair, error) { return m.ca.Client(m.validity, who, r.name) }); err != nil {
				return err
			}
		}
	}
	m.whatNext(servers, roles)
	return nil
}

// authority is the folder's CA, made if it is not there.
func (m *maker) authority() error {
	dir := filepath.Join(m.dir, "ca")
	ca, err := pki.LoadCA(dir)
	switch {
	case err == nil:
		m.say("kept", filepath.Join("ca", pki.CACertFile), "the CA, until "+ca.NotAfter().UTC().Format(time.DateOnly))
	case errors.Is(err, fs.ErrNotExist):
		if ca, err = pki.NewCA("firebreak "+filepath.Base(absolute(m.dir)), 0); err != nil {
			return err
		}
		if err := ca.Save(dir); err != nil {
			return err
		}
		m.say("made", filepath.Join("ca", pki.CACertFile), "the CA, until "+ca.NotAfter().UTC().Format(time.DateOnly)+"; keep its key here and nowhere else")
	default:
		return err
	}
	m.ca = ca
	return nil
}

// pair makes a certificate and its key in a folder, unless one is there.
func (m *maker) pair(folder, forWhom string, issue func() (*pki.Pair, error)) error {
	dir := filepath.Join(m.dir, folder)
	for _, file := range []string{client.FileCert, client.FileKey} {
		_, err := os.Lstat(filepath.Join(dir, file))
		switch {
		case err == nil:
			m.say("kept", folder, forWhom)
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	p, err := issue()
	if err != nil {
		return err
	}
	if _, err := p.Save(dir, keyPair); err != nil {
		return err
	}
	m.say("made", folder, forWhom+", until "+p.Leaf.NotAfter.UTC().Format(time.DateOnly))
	return nil
}

func (m *maker) say(what, folder, forWhom string) {
	fmt.Fprintf(m.a.Out, "%s  %-22s  %s\n", what, folder, forWhom)
}

// whatNext says what goes where, to be pasted.
func (m *maker) whatNext(servers []string, roles []*role) {
	dir := absolute(m.dir)
	files := func(folder string) (ca, cert, key string) {
		f := filepath.Join(dir, folder)
		return filepath.Join(f, client.FileCA), filepath.Join(f, client.FileCert), filepath.Join(f, client.FileKey)
	}
	ca, cert, key := files("controller")
	apiCA, apiCert, apiKey := files("api")
	fmt.Fprintf(m.a.Out, `
In the controller's fleet file:

  tls:
    ca: %s
    cert: %s
    key: %s
  api:
    listen: 127.0.0.1:9354   # or 0.0.0.0:9354, to be called from elsewhere
    tls:
      ca: %s
      cert: %s
      key: %s
`, ca, cert, key, apiCA, apiCert, apiKey)
	first := ""
	for _, r := range roles {
		if len(r.who) == 0 {
			continue
		}
		if first == "" {
			fmt.Fprint(m.a.Out, "    roles:\n")
		}
		first = r.who[0]
		fmt.Fprintf(m.a.Out, "      %s: [%s]\n", r.name, strings.Join(r.who, ", "))
	}
	if len(servers) > 0 {
		fmt.Fprint(m.a.Out, `
On each server, with its three files in /etc/firebreak, in the Corefile:

  control :9443 {
      tls /etc/firebreak/tls.crt /etc/firebreak/tls.key /etc/firebreak/ca.crt
      allow controller
  }
`)
	}
	if first != "" {
		fmt.Fprintf(m.a.Out, `
For each person:

  export FIREBREAK_CERTS=%s
  export FIREBREAK_CONTROLLER=https://CONTROLLER:9354
  %s servers
`, filepath.Join(dir, "people", first), m.a.program)
	}
}

func absolute(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}
