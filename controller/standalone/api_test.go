package standalone

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/fleet/fleettest"
	"firebreakdns.io/firebreak/controller/pki"
	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

const (
	drillNS1 = "/api/v1/servers/ns1/drill"
	everyone = `{"everyone":true,"durationSeconds":15,"reason":"test"}`
	dryRun   = `{"everyone":true,"durationSeconds":15,"reason":"test","dryRun":true}`
)

// Who may do what: every role on every route.
func TestRoles(t *testing.T) {
	p := newPlace(t)
	p.write(false) // nothing starts: who may, is refused by a guard
	r := p.start()
	for _, c := range []struct {
		method, path, body                    string
		viewer, assistant, operator, stranger int
	}{
		{"GET", view.PathServers, "", 200, 200, 200, 403},
		{"GET", view.PathDrills, "", 200, 200, 200, 403},
		{"GET", view.PathClients, "", 200, 200, 200, 403},
		{"GET", view.PathAffinity, "", 200, 200, 200, 403},
		{"GET", "/metrics", "", 200, 200, 200, 403},
		{"GET", drillNS1, "", 404, 404, 404, 403},
		{"GET", view.PathDrills + "/nothing", "", 404, 404, 404, 403},
		{"GET", view.PathDrills + "/nothing/html", "", 404, 404, 404, 403},
		{"POST", drillNS1, dryRun, 403, 200, 200, 403},
		{"POST", drillNS1, everyone, 403, 403, 409, 403},
		{"DELETE", drillNS1, "", 403, 403, 404, 403},
		{"PUT", drillNS1, everyone, 405, 405, 405, 403},
		{"GET", "/elsewhere", "", 404, 404, 404, 403},
	} {
		for name, want := range map[string]int{"vera": c.viewer, "ada": c.assistant, "olga": c.operator, "mallory": c.stranger} {
			before := p.log.count("audit=true", "refused", "by="+name)
			a := r.as(name)(c.method, c.path, c.body)
			if a.status != want {
				t.Errorf("%s as %s: %s %s: %d, want %d: %s", name, name, c.method, c.path, a.status, want, a.body)
			}
			if a.status >= 400 {
				a.problem(t)
			}
			denied := a.status == 403 || a.status == 409 || a.status == 404 && c.method == "DELETE"
			if audited := p.log.count("audit=true", "refused", "by="+name) > before; denied != audited {
				t.Errorf("%s %s as %s: %d, audited: %v", c.method, c.path, name, a.status, audited)
			}
		}
	}
	if touched := p.touched(); len(touched) > 0 {
		t.Errorf("servers were changed: %v", touched)
	}
}

// Every bad request is a problem document that names the field, and changes nothing.
func TestBadRequests(t *testing.T) {
	p := newPlace(t)
	p.cache(1)
	r := p.start()
	olga := r.as("olga")
	for _, c := range []struct {
		name, path, body string
		status           int
		field, says      string
		reason           run.Reason
	}{
		{"too short", drillNS1, `{"everyone":true,"durationSeconds":14,"reason":"x"}`, 409, "durationSeconds", "between 15 and 300", run.OutOfBounds},
		{"too long", drillNS1, `{"everyone":true,"durationSeconds":301,"reason":"x"}`, 409, "durationSeconds", "between 15 and 300", run.OutOfBounds},
		{"negative", drillNS1, `{"everyone":true,"durationSeconds":-1,"reason":"x"}`, 409, "durationSeconds", "between 15 and 300", run.OutOfBounds},
		{"unknown mode", drillNS1, `{"everyone":true,"mode":"kill","reason":"x"}`, 409, "mode", `"drop" or "refused"`, run.OutOfBounds},
		{"unknown stage", drillNS1, `{"everyone":true,"stage":"planet","reason":"x"}`, 409, "stage", "server", run.OutOfBounds},
		{"unknown readiness", drillNS1, `{"everyone":true,"readiness":"maybe","reason":"x"}`, 409, "readiness", `"fail" or "pass"`, run.OutOfBounds},
		{"nobody", drillNS1, `{"reason":"x"}`, 409, "clients", "everyone", run.OutOfBounds},
		{"both", drillNS1, `{"everyone":true,"clients":["192.0.2.7"],"reason":"x"}`, 409, "clients", "drop one", run.OutOfBounds},
		{"too many error points", drillNS1, `{"everyone":true,"limits":{"errorPoints":101},"reason":"x"}`, 409, "limits.errorPoints", "it is 101; it is to be between 0 and 100", run.OutOfBounds},
		{"a negative limit", drillNS1, `{"everyone":true,"limits":{"stuck":-1},"reason":"x"}`, 409, "limits.stuck", "it is -1; it is to be 0 or more", run.OutOfBounds},
		{"no time to notice", drillNS1, `{"everyone":true,"limits":{"expectSeconds":0},"reason":"x"}`, 409, "limits.expectSeconds", "1 or more", run.OutOfBounds},
		{"no reason", drillNS1, `{"everyone":true}`, 409, "reason", "say why", run.ReasonMissing},
		{"unknown server", "/api/v1/servers/ns9/drill", everyone, 409, "server", "ns1, ns2", run.TargetNotFound},
		{"a server with a strange name", "/api/v1/servers/NS%201%2F../drill", everyone, 409, "server", "no server", run.TargetNotFound},
		{"the machine itself", drillNS1, `{"clients":["127.0.0.1"],"reason":"x"}`, 409, "clients", "never drilled: 127.0.0.1 (it is loopback", run.NoTargets},
		{"infrastructure", drillNS1, `{"clients":["192.0.2.254"],"reason":"x"}`, 409, "clients", "never drilled: 192.0.2.254 (it is infrastructure", run.NoTargets},
		{"excluded again", drillNS1, `{"clients":["phone"],"exclude":["mobile"],"reason":"x"}`, 409, "clients", "excluded", run.NoTargets},
		{"everybody excluded", drillNS1, `{"everyone":true,"exclude":["mobile"],"reason":"x"}`, 409, "clients", "excluded", run.NoTargets},
		{"nobody was seen", drillNS1, `{"clients":["198.51.100.0/24"],"reason":"x"}`, 409, "clients", "none of these", run.NoTargets},
		{"unknown upstream", drillNS2, `{"upstream":"10.0.0.9","reason":"x"}`, 409, "upstream", "it has 10.0.0.53:53, 10.0.0.54:53", run.TargetNotFound},
		{"an upstream of a server without hedge", drillNS1, `{"upstream":"10.0.0.53","reason":"x"}`, 409, "upstream", `has no "hedge"`, run.TargetNotFound},
		{"an upstream of an unknown server", "/api/v1/servers/ns9/drill", `{"upstream":"10.0.0.53","reason":"x"}`, 409, "server", "ns1, ns2", run.TargetNotFound},
		{"an upstream that is none", drillNS2, `{"upstream":"nobody","reason":"x"}`, 409, "upstream", "IP:PORT", run.OutOfBounds},
		{"no upstream", drillNS2, `{"stage":"upstream","reason":"x"}`, 409, "upstream", "no upstream is named", run.OutOfBounds},
		{"an upstream of a server's drill", drillNS2, `{"stage":"server","everyone":true,"upstream":"10.0.0.53","reason":"x"}`, 409, "upstream", `write "upstream"`, run.OutOfBounds},
		{"a server's mode for an upstream", drillNS2, `{"upstream":"10.0.0.53","mode":"drop","reason":"x"}`, 409, "mode", `"blackhole" or "down"`, run.OutOfBounds},
		{"readiness of an upstream's drill", drillNS2, `{"upstream":"10.0.0.53","readiness":"fail","reason":"x"}`, 409, "readiness", "leave readiness out", run.OutOfBounds},
		{"clients of an upstream's drill", drillNS2, `{"upstream":"10.0.0.53","clients":["192.0.2.7"],"reason":"x"}`, 409, "clients", "every client", run.OutOfBounds},
		{"exclusions of an upstream's drill", drillNS2, `{"upstream":"10.0.0.53","exclude":["192.0.2.7"],"reason":"x"}`, 409, "exclude", "every client", run.OutOfBounds},
		{"malformed prefix", drillNS1, `{"clients":["192.0.2.7","192.0.2.0/33"],"reason":"x"}`, 400, "clients[1]", "192.0.2.0/33", ""},
		{"ambiguous prefix", drillNS1, `{"clients":["192.0.2.7/24"],"reason":"x"}`, 400, "clients[0]", "did you mean 192.0.2.0/24?", ""},
		{"unknown client", drillNS1, `{"clients":["phome"],"reason":"x"}`, 400, "clients[0]", `did you mean "phone"?`, ""},
		{"unknown exclusion", drillNS1, `{"everyone":true,"exclude":["nobody"],"reason":"x"}`, 400, "exclude[0]", "not known", ""},
		{"unknown field", drillNS1, `{"everyone":true,"exlude":["192.0.2.7"],"reason":"x"}`, 400, "exlude", `did you mean "exclude"?`, ""},
		{"unknown field within", drillNS1, `{"everyone":true,"limits":{"stuk":1},"reason":"x"}`, 400, "limits.stuk", `did you mean "stuck"?`, ""},
		{"wrong kind", drillNS1, `{"everyone":"yes","reason":"x"}`, 400, "everyone", "it is text, and should be true or false", ""},
		{"a fraction", drillNS1, `{"everyone":true,"durationSeconds":30.5,"reason":"x"}`, 400, "durationSeconds", "it is 30.5, and should be a whole number", ""},
		{"a list for a number", drillNS1, `{"durationSeconds":[30]}`, 400, "durationSeconds", "it is a list, and should be a whole number", ""},
		{"an object for a list", drillNS1, `{"clients":{}}`, 400, "clients", "it is an object, and should be a list", ""},
		{"a switch for a text", drillNS1, `{"reason":true}`, 400, "reason", "it is true or false, and should be text", ""},
		{"a list for all", drillNS1, `[]`, 400, "", "the body is a list, and should be an object", ""},
		{"other letters", drillNS1, `{"Everyone":true,"reason":"x"}`, 400, "Everyone", `write it "everyone"`, ""},
		{"other letters within", drillNS1, `{"everyone":true,"limits":{"STUCK":9},"reason":"x"}`, 400, "limits.STUCK", `write it "stuck"`, ""},
		{"twice", drillNS1, `{"everyone":true,"everyone":false,"clients":["192.0.2.7"],"reason":"x"}`, 400, "everyone", "twice", ""},
		{"an exclusion twice", drillNS1, `{"everyone":true,"exclude":["192.0.2.7"],"exclude":[],"reason":"x"}`, 400, "exclude", "twice", ""},
		{"twice within", drillNS1, `{"everyone":true,"monitors":[{"name":"a","name":"b"}],"reason":"x"}`, 400, "monitors[0].name", "twice", ""},
		{"wrong kind within", drillNS1, `{"limits":{"stuck":"x"}}`, 400, "limits.stuck", "a whole number", ""},
		{"a list that is none", drillNS1, `{"clients":"phone"}`, 400, "clients", "a list", ""},
		{"bad monitor", drillNS1, `{"everyone":true,"monitors":[{"name":"a..b"}],"reason":"x"}`, 400, "monitors[0].name", "no domain name", ""},
		{"bad monitor type", drillNS1, `{"everyone":true,"monitors":[{"name":"a","type":"MX"}],"reason":"x"}`, 400, "monitors[0].type", "A or AAAA", ""},
		{"no JSON", drillNS1, `everyone`, 400, "", "no JSON", ""},
		{"nothing", drillNS1, ``, 415, "", "application/json", ""},
		{"two values", drillNS1, everyone + everyone, 400, "", "more after", ""},
		{"too large", drillNS1, `{"reason":"` + strings.Repeat("x", maxBody) + `"}`, 413, "", "bytes", ""},
		{"a long reason", drillNS1, `{"everyone":true,"reason":"` + strings.Repeat("x", 2000) + `"}`, 400, "reason", "at most", ""},
		{"a parameter", drillNS1 + "?dryRun=true", everyone, 400, "dryRun", "no parameters", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := olga("POST", c.path, c.body)
			q := a.problem(t)
			if a.status != c.status || q.Field != c.field || !strings.Contains(q.Detail, c.says) || q.Reason != c.reason {
				t.Errorf("%d %q %q, want %d %q %q: %s", a.status, q.Field, q.Reason, c.status, c.field, c.reason, a.body)
			}
			if c.status == 409 && (len(q.Checks) == 0 || !strings.HasSuffix(q.Type, "drill_refused")) {
				t.Errorf("no checks: %s", a.body)
			}
		})
	}
	for path, field := range map[string]string{
		"/api/v1/drills?limit=0": "limit", "/api/v1/drills?limit=x": "limit", "/api/v1/drills?limt=1": "limt", "/api/v1/drills?limit=1&limit=2": "limit",
		"/api/v1/drills/x?clientsFrom=-1": "clientsFrom", "/api/v1/clients?after=1": "after",
	} {
		if q := olga("GET", path, "").problem(t); q.Status != 400 || q.Field != field {
			t.Errorf("%s: %+v", path, q)
		}
	}
	if q := olga("DELETE", drillNS1, `{"because":"x"}`).problem(t); q.Field != "because" {
		t.Errorf("%+v", q)
	}
	if touched := p.touched(); len(touched) > 0 {
		t.Errorf("servers were changed: %v", touched)
	}
	if l := decodeAs[view.DrillList](t, olga("GET", view.PathDrills, "")); len(l.Drills) != 0 {
		t.Errorf("runs were made: %+v", l)
	}
	if n := p.log.count("audit=true", "refused", "by=olga"); n < 20 {
		t.Errorf("%d audit lines of refusals", n)
	}
}

// Who shows no certificate of ours gets no further than TLS, and is noted.
func TestForeignCertificates(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	other := fleettest.NewCA(t)
	foreign := other.Client("olga")
	foreign.CA = p.ca.Client("x").CA // it knows us; we do not know it
	expired := p.ca.Expired("olga")
	for name, files := range map[string]struct {
		config func() (*tls.Config, error)
		says   string
	}{
		"foreign": {func() (*tls.Config, error) { return pki.ToAPI(foreign, nil) }, "another CA"},
		"expired": {func() (*tls.Config, error) { return pki.ToAPI(expired, nil) }, "expired"},
		"none":    {func() (*tls.Config, error) { return &tls.Config{InsecureSkipVerify: true}, nil }, "certificate"},
	} {
		config, err := files.config()
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 5 * time.Second}
		if resp, err := client.Get(r.apis[0].where + view.PathServers); err == nil {
			t.Errorf("%s: answered %s", name, resp.Status)
			resp.Body.Close()
		}
		eventually(t, 2*time.Second, name+" in the audit log", func() bool { return p.log.count("audit=true", "refused", files.says) > 0 })
	}
	// A certificate for other uses is no caller's.
	if _, err := pki.ToAPI(p.ca.Server("ns1"), nil); err == nil {
		t.Error("a server's certificate was taken for a caller's")
	}
}

func TestPlanChangesNothing(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	plan := decodeAs[run.Plan](t, r.as("ada")("POST", drillNS1, `{"clients":["mobile"],"durationSeconds":15,"reason":"x","dryRun":true}`))
	if !plan.Allowed || plan.TargetsTotal != 1 || plan.Targets[0].Name != "phone" || plan.Spec.By != "ada" || plan.Spec.ProbeToken != "" {
		t.Errorf("%+v", plan)
	}
	if len(plan.Shortened) == 0 {
		t.Error("the plan does not say that waits are shortened")
	}
	plan = decodeAs[run.Plan](t, r.as("ada")("POST", "/api/v1/servers/ns9/drill", dryRun))
	if plan.Allowed {
		t.Error("a plan for no server is allowed")
	}
	if touched := p.touched(); len(touched) > 0 {
		t.Errorf("servers were changed: %v", touched)
	}
}

func TestServersClientsAffinity(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	vera := r.as("vera")
	servers := decodeAs[view.ServerList](t, vera("GET", view.PathServers, ""))
	if servers.Fleet != "office" || !servers.Enabled || len(servers.Servers) != 2 || !servers.Servers[0].Heard || servers.Servers[0].LastProbe == nil {
		t.Errorf("%+v", servers)
	}
	clients := decodeAs[view.ClientList](t, vera("GET", view.PathClients, ""))
	if len(clients.Clients) != 1 || clients.Clients[0].Queries != 20 || len(clients.Clients[0].Servers) != 2 || clients.Clients[0].Name != "phone" || clients.Unheard == nil {
		t.Errorf("%+v", clients)
	}
	affinity := decodeAs[view.AffinityList](t, vera("GET", view.PathAffinity, ""))
	if len(affinity.Clients) != 1 || affinity.Clients[0].SingleHomed || affinity.Clients[0].Share != 0.5 || affinity.Clients[0].Queries[1] != 10 {
		t.Errorf("%+v", affinity)
	}
}

func TestMetrics(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	text := string(r.as("vera")("GET", "/metrics", "").body)
	for _, want := range []string{
		`firebreak_drill_runs_total{fleet="office",outcome="passed"} 0`, `firebreak_drill_active{fleet="office",server="ns1"} 0`,
		`firebreak_drill_enabled{fleet="office"} 1`, `firebreak_server_heard{fleet="office",server="ns2"} 1`, "firebreak_build_info{",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

// A body that no browser form could send is asked for.
func TestContentType(t *testing.T) {
	p := newPlace(t)
	r := p.start()
	config, err := pki.ToAPI(p.ca.Client("olga"), nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	defer client.CloseIdleConnections()
	resp, err := client.Post(r.apis[0].where+drillNS1, "text/plain", strings.NewReader(everyone))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnsupportedMediaType || resp.Header.Get("Content-Type") != protocol.ProblemMedia {
		t.Error(resp.Status)
	}
}
