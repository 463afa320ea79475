package fleet

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/steady"
)

// Bounds on what a server may answer, in bytes. They are far above what a
// server of ours says, and far below what would hurt.
const (
	maxSmall     = 1 << 20   // a state, counters, a problem
	maxPage      = 8 << 20   // protocol.MaxSeenPage clients
	maxRecording = 256 << 20 // 65,536 clients with samples
	// maxPages of a seen table: 65,536 clients, with room to spare.
	maxPages = 128
)

// Client calls one server's control endpoint. Every call ends with its context;
// what the server refuses is a *protocol.Problem.
type Client struct {
	base  string
	http  *http.Client
	close func()
}

// NewClient calls https://HOST:PORT with the TLS configuration, or unix:///PATH.
func NewClient(control string, config *tls.Config) *Client {
	t := &http.Transport{
		TLSClientConfig:     config,
		MaxIdleConnsPerHost: 4,
		MaxConnsPerHost:     16,
		IdleConnTimeout:     30 * time.Second,
		TLSHandshakeTimeout: 5 * time.Second,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}
	base := strings.TrimSuffix(control, "/")
	if path, ok := strings.CutPrefix(control, "unix://"); ok {
		base = "http://server"
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	return &Client{
		base: base,
		http: &http.Client{
			Transport: t,
			// A control endpoint sends nobody elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		close: t.CloseIdleConnections,
	}
}

// Close drops idle connections.
func (c *Client) Close() { c.close() }

// State is what the server is and does, with the times on our clock at which it
// was asked and answered.
func (c *Client) State(ctx context.Context) (s protocol.State, asked, answered time.Time, err error) {
	asked = steady.Now()
	err = c.get(ctx, protocol.PathState, maxSmall, &s)
	return s, asked, steady.Now(), err
}

// Stats are the server's counters.
func (c *Client) Stats(ctx context.Context) (s protocol.Stats, err error) {
	return s, c.get(ctx, protocol.PathStats, maxSmall, &s)
}

// Seen is the whole seen table, page by page.
func (c *Client) Seen(ctx context.Context) ([]protocol.SeenClient, error) {
	var all []protocol.SeenClient
	after := ""
	for range maxPages {
		q := url.Values{"limit": {strconv.Itoa(protocol.MaxSeenPage)}}
		if after != "" {
			q.Set("after", after)
		}
		var page protocol.SeenPage
		if err := c.get(ctx, protocol.PathClients+"?"+q.Encode(), maxPage, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Clients...)
		if page.Next == "" {
			return all, nil
		}
		if page.Next == after {
			return nil, fmt.Errorf("the seen table's pages go round in a circle at %q", after)
		}
		after = page.Next
	}
	return nil, fmt.Errorf("the seen table has more than %d pages", maxPages)
}

// Recording is what the server saw for a drill.
func (c *Client) Recording(ctx context.Context, drill string, samples bool) (r protocol.Recording, err error) {
	path := protocol.PathRecordings + url.PathEscape(drill)
	if !samples {
		path += "?samples=none"
	}
	return r, c.get(ctx, path, maxRecording, &r)
}

// Record starts a recording.
func (c *Client) Record(ctx context.Context, boot, drill string, o protocol.RecordingOrder) error {
	return c.do(ctx, http.MethodPut, protocol.PathRecordings+url.PathEscape(drill), boot, o, maxSmall, nil)
}

// Unrecord drops a recording.
func (c *Client) Unrecord(ctx context.Context, boot, drill string) error {
	return c.do(ctx, http.MethodDelete, protocol.PathRecordings+url.PathEscape(drill), boot, nil, maxSmall, nil)
}

// Order starts a drill.
func (c *Client) Order(ctx context.Context, boot string, o protocol.Order) (*protocol.DrillState, error) {
	return c.drill(ctx, http.MethodPut, protocol.PathDrill, boot, o)
}

// Renew keeps a drill's lease.
func (c *Client) Renew(ctx context.Context, boot, drill string) (*protocol.DrillState, error) {
	return c.drill(ctx, http.MethodPost, protocol.PathDrills+url.PathEscape(drill)+"/renew", boot, nil)
}

// End ends a drill.
func (c *Client) End(ctx context.Context, boot, drill string) (*protocol.DrillState, error) {
	return c.drill(ctx, http.MethodDelete, protocol.PathDrills+url.PathEscape(drill), boot, nil)
}

// Outage takes an upstream of the server away. The same order again keeps its lease.
func (c *Client) Outage(ctx context.Context, boot, upstream string, o protocol.OutageOrder) (*protocol.OutageState, error) {
	return c.outage(ctx, http.MethodPut, upstream, "", boot, o)
}

// EndOutage ends an upstream's outage.
func (c *Client) EndOutage(ctx context.Context, boot, upstream, id string) (*protocol.OutageState, error) {
	return c.outage(ctx, http.MethodDelete, upstream, "?id="+url.QueryEscape(id), boot, nil)
}

func (c *Client) outage(ctx context.Context, method, upstream, query, boot string, body any) (*protocol.OutageState, error) {
	var s protocol.OutageState
	if err := c.do(ctx, method, protocol.PathUpstreams+url.PathEscape(upstream)+"/outage"+query, boot, body, maxSmall, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

func (c *Client) drill(ctx context.Context, method, path, boot string, body any) (*protocol.DrillState, error) {
	var s protocol.DrillState
	if err := c.do(ctx, method, path, boot, body, maxSmall, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

func (c *Client) get(ctx context.Context, path string, limit int64, into any) error {
	return c.do(ctx, http.MethodGet, path, "", nil, limit, into)
}

// do makes one call. into may be nil, or the answer may have no body.
func (c *Client) do(ctx context.Context, method, path, boot string, body any, limit int64, into any) error {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if boot != "" {
		req.Header.Set(protocol.BootHeader, boot)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return plainly(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return plainly(err)
	case int64(len(data)) > limit:
		return fmt.Errorf("%s %s: the answer has more than %d bytes; it was not read", method, path, limit)
	case resp.StatusCode/100 != 2:
		return refusal(resp, data)
	case into == nil || len(data) == 0 && method != http.MethodGet:
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s %s: the answer is not understood: %w", method, path, err)
	}
	return nil
}

// refusal is the problem document of an answer, or the best there is of it.
func refusal(resp *http.Response, data []byte) error {
	var p protocol.Problem
	if json.Unmarshal(data, &p) == nil && strings.HasPrefix(p.Type, protocol.ProblemType) {
		if p.Status == 0 {
			p.Status = resp.StatusCode
		}
		return &p
	}
	const some = 200
	text := strings.TrimSpace(string(data[:min(len(data), some)]))
	return fmt.Errorf("it answered %s and no problem document: %q", resp.Status, text)
}

// plainly is an error without the URL that its reader knows already.
func plainly(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	return err
}
