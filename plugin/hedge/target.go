package hedge

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"firebreakdns.io/firebreak/plugin/hedge/endpoints"
	"firebreakdns.io/firebreak/plugin/hedge/kube"

	"github.com/miekg/dns"
)

const (
	tlsPrefix = "tls://"
	dnsPrefix = "dns://"
)

// target is one word of a Corefile that says whom to ask (two, for a Service).
type target struct {
	text       string // as it stands there
	tls        bool
	serverName string

	addr    netip.AddrPort // static: valid
	host    string         // a name
	port    uint16         // of a host
	path    string         // a resolv.conf
	service *service
}

type service struct{ name, namespace, port string }

func (t *target) static() bool { return t.addr.IsValid() }

// key names an upstream of this target to the engine and in metrics.
func (t *target) key(addr netip.AddrPort) string {
	if t.tls {
		return tlsPrefix + addr.String()
	}
	return addr.String()
}

// source finds the addresses of a target that is not one.
func (t *target) source(o *options) endpoints.Source {
	switch {
	case t.path != "":
		return &endpoints.ResolvConf{Path: t.path}
	case t.service != nil:
		return &endpoints.Service{
			Namespace: t.service.namespace, Name: t.service.name, Port: t.service.port,
			Node: o.node, Zone: o.zone, Watcher: &cluster{options: o.kube},
		}
	}
	return &endpoints.Host{Name: t.host, Port: t.port, Resolvers: o.resolvers}
}

// sourceKey names a target's source apart from all others.
func (o *options) sourceKey(t *target) string {
	key := t.source(o).String()
	if t.service != nil && o.kube != (kube.Options{}) {
		key += fmt.Sprintf(" of %s %s", o.kube.Kubeconfig, o.kube.Context)
	}
	return key
}

// parseTargets reads the words after FROM.
func parseTargets(words []string, root string) ([]*target, error) {
	var list []*target
	for i := 0; i < len(words); i++ {
		word := words[i]
		if word != "kubernetes" {
			t, err := parseTarget(word, root)
			if err != nil {
				return nil, err
			}
			list = append(list, t)
			continue
		}
		if i++; i == len(words) {
			return nil, fmt.Errorf("kubernetes wants a Service after it: kubernetes SERVICE.NAMESPACE[:PORT]")
		}
		s, err := parseService(words[i])
		if err != nil {
			return nil, err
		}
		list = append(list, &target{text: "kubernetes " + words[i], service: s})
	}
	return list, nil
}

func parseService(word string) (*service, error) {
	name, port, _ := strings.Cut(word, ":")
	first, namespace, ok := strings.Cut(name, ".")
	if !ok || first == "" || namespace == "" || strings.Contains(namespace, ".") {
		return nil, fmt.Errorf("%q is no Service: write SERVICE.NAMESPACE[:PORT], as in kube-dns.kube-system or kube-dns.kube-system:53", word)
	}
	if strings.HasSuffix(word, ":") {
		return nil, fmt.Errorf("%q: a port's number or name belongs after the colon", word)
	}
	if n, err := strconv.Atoi(port); err == nil && (n < 1 || n > math.MaxUint16) {
		return nil, fmt.Errorf("%q: %q is no port: use 1 to 65535, or the port's name", word, port)
	}
	return &service{name: first, namespace: namespace, port: port}, nil
}

func parseTarget(word, root string) (*target, error) {
	t := &target{text: word}
	rest := word
	if scheme, _, ok := strings.Cut(word, "://"); ok {
		switch scheme + "://" {
		case tlsPrefix:
			t.tls = true
		case dnsPrefix:
		default:
			return nil, fmt.Errorf("%q: hedge asks over plain DNS and DNS over TLS: write IP[:PORT], dns://IP[:PORT] or tls://IP[%%SERVERNAME][:PORT]; for %s use forward", word, scheme)
		}
		rest = word[len(scheme)+3:]
	} else if strings.Contains(word, "/") {
		t.path = word
		if !filepath.IsAbs(t.path) {
			t.path = filepath.Join(root, t.path)
		}
		return t, nil
	}
	port := uint16(53)
	if t.tls {
		port = 853
		if ip, name, ok := strings.Cut(rest, "%"); ok {
			if rest, t.serverName = ip, name; name == "" {
				return nil, fmt.Errorf("%q: a server's name belongs after the %%", word)
			}
			if at := strings.LastIndex(t.serverName, ":"); at >= 0 { // IP%NAME:PORT
				rest, t.serverName = ip+t.serverName[at:], t.serverName[:at]
			}
			if _, ok := dns.IsDomainName(t.serverName); !ok || t.serverName == "" {
				return nil, fmt.Errorf("%q: %q is no server's name", word, t.serverName)
			}
		}
	}
	host := rest
	if h, p, err := net.SplitHostPort(rest); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("%q: %q is no port: use 1 to 65535", word, p)
		}
		host, port = h, uint16(n)
	}
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		a = a.Unmap()
		if a.IsUnspecified() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			return nil, fmt.Errorf("%q is no address of a server", word)
		}
		if strings.Contains(a.Zone(), ":") { // a port, where there are no brackets
			return nil, fmt.Errorf("%q: a port belongs behind brackets: [IP%%INTERFACE]:PORT", word)
		}
		t.addr = netip.AddrPortFrom(a, port)
		return t, nil
	}
	if _, ok := dns.IsDomainName(host); !ok || host == "" || strings.ContainsAny(host, ":[]%") || allDigits(host) {
		return nil, fmt.Errorf("%q is no upstream: write IP[:PORT], tls://IP[%%SERVERNAME][:PORT], a host's name, the path of a resolv.conf, or kubernetes SERVICE.NAMESPACE[:PORT]", word)
	}
	t.host, t.port = dns.CanonicalName(host), port
	if t.tls && t.serverName == "" {
		t.serverName = strings.TrimSuffix(t.host, ".")
	}
	return t, nil
}

// allDigits is true of what was meant as an IPv4 address.
func allDigits(s string) bool { return strings.Trim(s, "0123456789.") == "" }

// clusterRetry is when a cluster that cannot be asked at all is tried again.
const clusterRetry = 10 * time.Second

// cluster is a Watcher that is connected when it is first asked: a Corefile
// starts without its cluster.
type cluster struct{ options kube.Options }

// Watch implements endpoints.Watcher.
func (c *cluster) Watch(ctx context.Context, namespace, name string, changed func([]endpoints.Slice, error)) {
	for {
		w, err := kube.New(c.options)
		if err == nil {
			w.Watch(ctx, namespace, name, changed)
			return
		}
		changed(nil, err)
		select {
		case <-time.After(clusterRetry):
		case <-ctx.Done():
			return
		}
	}
}

// Zone implements endpoints.Watcher.
func (c *cluster) Zone(ctx context.Context, node string) (string, error) {
	w, err := kube.New(c.options)
	if err != nil {
		return "", err
	}
	return w.Zone(ctx, node)
}
