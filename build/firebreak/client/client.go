package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

// Options say where the controller is and who calls.
type Options struct {
	Controller string // https://HOST:PORT or unix:///PATH
	Certs      string // a folder with ca.crt, tls.crt and tls.key, as `firebreak certs` makes one for each person
	CA         string // or each file by itself
	Cert       string
	Key        string
	Timeout    time.Duration // of one call
	Agent      string        // User-Agent
}

// Client calls one controller.
type Client struct {
	where   string // for errors
	base    string
	http    *http.Client
	keys    *mtls.Source // nil on a unix socket
	timeout time.Duration
	agent   string
	// skew is the controller's clock minus ours, from its Date headers.
	skew time.Duration
}

// files that hold a caller's certificate in a folder of `firebreak certs`: the
// names that a Kubernetes TLS secret gives them.
const (
	FileCA   = "ca.crt"
	FileCert = "tls.crt"
	FileKey  = "tls.key"
)

// maxAnswer bounds what an answer may hold: 65,536 clients and some.
const maxAnswer = 64 << 20

// New is a client; nothing is called yet.
func New(o Options) (*Client, error) {
	if o.Controller == "" {
		return nil, errors.New("which controller? Say --controller https://HOST:PORT or --controller unix:///PATH, or set FIREBREAK_CONTROLLER")
	}
	u, err := url.Parse(o.Controller)
	if err != nil || !strings.Contains(o.Controller, "://") {
		return nil, fmt.Errorf("--controller %s: write it as https://HOST:PORT or unix:///PATH%s", o.Controller, meant(o.Controller))
	}
	c := &Client{where: o.Controller, timeout: o.Timeout, agent: o.Agent}
	switch {
	case u.Scheme == "unix" && u.Host == "" && filepath.IsAbs(u.Path):
		c.base = "http://controller"
		c.http = &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", u.Path)
			},
		}}
	case u.Scheme == "https" && u.Host != "" && strings.Trim(u.Path, "/") == "":
		c.base = "https://" + u.Host
		if c.keys, err = openKeys(o); err != nil {
			return nil, err
		}
		c.http = &http.Client{Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			TLSClientConfig:     mtls.ClientConfig(c.keys.Keys, mtls.KindAPI),
			TLSHandshakeTimeout: o.Timeout,
		}}
	default:
		return nil, fmt.Errorf("--controller %s: use https://HOST:PORT, or unix:///PATH with a whole path", o.Controller)
	}
	// A redirect would show our certificate to somebody else.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// meant is a guess at what somebody wrote without its scheme.
func meant(controller string) string {
	guess := "https://" + controller
	if strings.HasPrefix(controller, "/") {
		guess = "unix://" + controller
	}
	if u, err := url.Parse(guess); err != nil || strings.Contains(controller, "://") || u.Scheme == "https" && u.Host == "" {
		return ""
	}
	return "; did you mean " + guess + "?"
}

func openKeys(o Options) (*mtls.Source, error) {
	f := mtls.Files{CA: o.CA, Cert: o.Cert, Key: o.Key}
	for _, x := range []struct {
		file *string
		name string
	}{{&f.CA, FileCA}, {&f.Cert, FileCert}, {&f.Key, FileKey}} {
		if *x.file == "" && o.Certs != "" {
			*x.file = filepath.Join(o.Certs, x.name)
		}
		if *x.file == "" {
			return nil, errors.New("who are you? Say --certs DIR (with ca.crt, tls.crt and tls.key in it), set FIREBREAK_CERTS, or say --ca, --cert and --key; `firebreak certs` makes such folders")
		}
	}
	keys, err := mtls.Open(f, mtls.KindClient, nil)
	if err != nil {
		return nil, err
	}
	if leaf := keys.Keys().Leaf; time.Now().After(leaf.NotAfter) {
		return nil, fmt.Errorf("%s: %w", f.Cert, mtls.Expired(leaf))
	}
	return keys, nil
}

// Now is the time on the controller's clock, as near as its Date header says.
func (c *Client) Now() time.Time { return time.Now().Add(c.skew) }

// Servers are the fleet as it is.
func (c *Client) Servers(ctx context.Context) (*view.ServerList, error) {
	return get[view.ServerList](ctx, c, view.PathServers, nil)
}

// Clients are the clients of all servers.
func (c *Client) Clients(ctx context.Context) (*view.ClientList, error) {
	return get[view.ClientList](ctx, c, view.PathClients, nil)
}

// Affinity says who asks which server.
func (c *Client) Affinity(ctx context.Context) (*view.AffinityList, error) {
	return get[view.AffinityList](ctx, c, view.PathAffinity, nil)
}

// Drills are runs, newest first: up to limit of them, older than before where it is given.
func (c *Client) Drills(ctx context.Context, limit int, before string) (*view.DrillList, error) {
	q := url.Values{}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if before != "" {
		q.Set("before", before)
	}
	return get[view.DrillList](ctx, c, view.PathDrills, q)
}

// Report is a run's report with all its clients, in as many calls as they need.
func (c *Client) Report(ctx context.Context, id string) (*run.Report, error) {
	path := strings.Replace(view.PathReport, "{id}", url.PathEscape(id), 1)
	r, err := get[run.Report](ctx, c, path, nil)
	if err != nil {
		return nil, err
	}
	for len(r.Clients) < r.ClientsTotal {
		more, err := get[run.Report](ctx, c, path, url.Values{"clientsFrom": {strconv.Itoa(len(r.Clients))}})
		if err != nil {
			return nil, err
		}
		if len(more.Clients) == 0 {
			break // the run went on meanwhile, and has fewer now
		}
		r.Clients = append(r.Clients, more.Clients...)
	}
	return r, nil
}

// Plan says what a drill would do. Nothing is changed.
func (c *Client) Plan(ctx context.Context, server string, ask view.DrillRequest) (*run.Plan, error) {
	ask.DryRun = true
	var p run.Plan
	return &p, c.call(ctx, http.MethodPost, drillPath(server), nil, ask, &p)
}

// Start starts a drill. A refusal is a *Refused.
func (c *Client) Start(ctx context.Context, server string, ask view.DrillRequest) (*run.Report, error) {
	ask.DryRun = false
	var r run.Report
	return &r, c.call(ctx, http.MethodPost, drillPath(server), nil, ask, &r)
}

// Stop ends the drill of a server.
func (c *Client) Stop(ctx context.Context, server, why string) (*run.Report, error) {
	var r run.Report
	return &r, c.call(ctx, http.MethodDelete, drillPath(server), nil, view.StopRequest{Why: why}, &r)
}

func drillPath(server string) string {
	return strings.Replace(view.PathDrill, "{server}", url.PathEscape(server), 1)
}

func get[T any](ctx context.Context, c *Client, path string, q url.Values) (*T, error) {
	var v T
	if err := c.call(ctx, http.MethodGet, path, q, nil, &v); err != nil {
		return nil, err
	}
	return &v, nil
}

func (c *Client) call(ctx context.Context, method, path string, q url.Values, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var send io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		send = bytes.NewReader(b)
	}
	target := c.base + path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, send)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json, "+protocol.ProblemMedia)
	req.Header.Set("User-Agent", c.agent)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer res.Body.Close()
	c.learnSkew(res)
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return c.unreachable(err)
	}
	if res.StatusCode/100 != 2 {
		return c.problem(res, data)
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s answered something else than a Firebreak controller would (%w): is --controller right, and are both of about the same version?", c.where, err)
	}
	return nil
}

// learnSkew takes the controller's clock from an answer. Below two seconds it
// may as well be the header, which has no fractions.
func (c *Client) learnSkew(res *http.Response) {
	at, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return
	}
	c.skew = 0
	if d := time.Until(at); d.Abs() > 2*time.Second {
		c.skew = d
	}
}
