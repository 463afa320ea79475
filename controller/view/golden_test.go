package view

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

var update = flag.Bool("update", false, "write the golden files anew")

func style() Style { return Style{Now: after(130)} }

func lists() map[string]any {
	yes, no := true, false
	return map[string]any{
		"servers": &ServerList{Fleet: "home", Servers: []Server{
			{Name: "ns1", DNS: []string{"192.0.2.1:53"}, Control: "https://192.0.2.1:9353", Heard: true, Version: "0.9.0", Features: []string{"clients", "drill"},
				Ready: &yes, OffsetMs: -3, OffsetErr: 1, LastAnswer: ptr(after(129.5)), LastProbe: ptr(after(120)), Drill: &protocol.DrillState{ID: "20261130-031430-ns1-k3v9"}},
			{Name: "ns2", DNS: []string{"192.0.2.2:53", "[2001:db8::2]:53"}, Upstreams: []protocol.UpstreamState{{Zone: ".", Address: "10.0.0.53:53", Healthy: true}, {Zone: ".", Address: "10.0.0.54:53"}}, Control: "https://192.0.2.2:9353", Error: "connection refused: is it running?", Ready: &no},
		}},
		"drills": &DrillList{Drills: []DrillRow{
			{ID: "20261130-031430-ns1-k3v9", Server: "ns1", Phase: run.Done, Outcome: run.Failed, Reason: run.ClientsStuck, Mode: protocol.ModeDrop, Seconds: 60,
				Verdicts: run.Verdicts{Followed: 5, Stuck: 1, Quiet: 2}, Coverage: ptr(5.0 / 6), Lost: ptr(14), By: "alice", Requested: start},
			{ID: "20261130-041430-ns2-aaaa", Server: "ns2", Phase: run.Out, Mode: protocol.ModeRefused, Seconds: 30, By: "schedule/monthly", Requested: after(100), Unsaved: "the state folder /var/lib/firebreak cannot be written: no space left on device"},
			{ID: "20261130-051430-ns1-bbbb", Server: "ns1", Upstream: "10.0.0.53:53", Phase: run.Done, Outcome: run.Passed, Reason: run.FailoverWorked, Mode: run.ModeBlackhole, Seconds: 60, By: "alice", Requested: after(200)},
		}, Next: "20261030-031430-ns1-zzzz"},
		"clients": &ClientList{Clients: []Client{{Address: "192.0.2.21", Name: "laptop", First: after(-90000), Last: after(100), Queries: 120345, Answers: 120300, Errors: 4, Retries: 17, Servers: []string{"ns1", "ns2"}}}, Unheard: []string{"ns3"}},
		"affinity": &AffinityList{Servers: []string{"ns1", "ns2"}, Clients: []Affinity{
			{Address: "192.0.2.21", Name: "laptop", Queries: []uint64{1200, 34}, Share: 1200.0 / 1234, Favourite: "ns1", Last: after(100)},
			{Address: "192.0.2.31", Queries: []uint64{88, 0}, Share: 1, Favourite: "ns1", SingleHomed: true, Last: after(-7200)}}},
		"no-drills": &DrillList{}, "no-clients": &ClientList{},
	}
}

// TestGolden holds every rendering to a file that people have looked at.
func TestGolden(t *testing.T) {
	things := lists()
	for name, r := range map[string]*run.Report{"failed": failed(), "passed": passed(), "refused": refused(), "running": running(), "hostile": hostile(), "upstream": upstream()} {
		things[name] = r
	}
	things["plan"], things["plan-refused"], things["plan-upstream"] = plan(true), plan(false), planOfUpstream()
	for name, v := range things {
		kinds := []Format{FormatTable, FormatWide, FormatYAML, FormatName}
		if _, ok := v.(*run.Report); ok {
			kinds = append(kinds, FormatHTML)
		}
		for _, f := range kinds {
			var b bytes.Buffer
			if err := Write(&b, v, f, style()); err != nil {
				t.Fatalf("%s as %s: %v", name, f, err)
			}
			compare(t, name+"."+string(f), b.Bytes())
		}
	}
	var b bytes.Buffer
	s := style()
	s.Color = true
	if err := Write(&b, failed(), FormatTable, s); err != nil {
		t.Fatal(err)
	}
	compare(t, "failed.color", b.Bytes())
}

func compare(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: run go test ./controller/view -update and look at what it wrote", err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s is not what it was; if it should be, run go test ./controller/view -update\n--- got\n%s", file, got)
	}
}
