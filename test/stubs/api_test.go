//go:build linux

package stubs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
)

// api is the controller's, on its unix socket: the one thing of the lab that can
// be reached from outside of it.
type api struct{ http.Client }

func newAPI(socket string) *api {
	return &api{http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

func (a *api) call(ctx context.Context, method, path string, body, out any) error {
	send, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://controller"+path, bytes.NewReader(send))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := a.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, b)
	}
	return json.Unmarshal(b, out)
}

// ready waits until the controller has heard every server.
func (a *api) ready(ctx context.Context) error {
	var last error
	for range 150 {
		var list view.ServerList
		if last = a.call(ctx, http.MethodGet, view.PathServers, nil, &list); last == nil {
			var missing []string
			for _, s := range list.Servers {
				if !s.Heard || s.LastProbe == nil {
					missing = append(missing, s.Name+" "+s.Error)
				}
			}
			if len(missing) == 0 {
				return nil
			}
			last = fmt.Errorf("not heard: %s", strings.Join(missing, ", "))
		}
		time.Sleep(200 * time.Millisecond)
	}
	return fmt.Errorf("the fleet was not ready within 30 s: %w", last)
}

// seen waits until servers have seen all these clients: a server that is among
// those that each client asks, or any.
func (a *api) seen(ctx context.Context, clients []string, server string) error {
	var missing []string
	for range 75 {
		var list view.ClientList
		if err := a.call(ctx, http.MethodGet, view.PathClients, nil, &list); err != nil {
			return err
		}
		know := map[string]bool{}
		for _, c := range list.Clients {
			know[c.Address] = server == "" || slices.Contains(c.Servers, server)
		}
		missing = slices.DeleteFunc(slices.Clone(clients), func(c string) bool { return know[c] })
		if len(missing) == 0 {
			return nil
		}
		time.Sleep(200 * time.Millisecond)
	}
	return fmt.Errorf("not seen within 15 s: %s", strings.Join(missing, ", "))
}

// drill starts one and waits for its report, amended by who returned.
func (a *api) drill(ctx context.Context, server string, ask view.DrillRequest) (*run.Report, error) {
	var r run.Report
	if err := a.call(ctx, http.MethodPost, strings.Replace(view.PathDrill, "{server}", server, 1), ask, &r); err != nil {
		return nil, err
	}
	path := strings.Replace(view.PathReport, "{id}", r.ID, 1)
	deadline := time.Now().Add(time.Duration(ask.DurationSeconds)*time.Second + 90*time.Second)
	for time.Now().Before(deadline) {
		time.Sleep(500 * time.Millisecond)
		r = run.Report{}
		if err := a.call(ctx, http.MethodGet, path, nil, &r); err != nil {
			return nil, err
		}
		if r.Phase.Final() && (r.Amended || r.Outcome == run.Refusal) {
			return &r, nil
		}
	}
	return &r, fmt.Errorf("drill %s is still %s (amended: %v) long after it should be over: %s", r.ID, r.Phase, r.Amended, r.Message)
}
