package fleet

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"firebreakdns.io/firebreak/controller/fleet/fleettest"
	"firebreakdns.io/firebreak/controller/run"
)

// What can never work is an error, what probably was not meant is a warning;
// each names its field and its line.
func TestWhatCannotWork(t *testing.T) {
	const groups = "groups: {printers: [192.0.2.64/28]}\nnames: {laptop: 192.0.2.77}\n"
	weekly := func(more string) string {
		return small + groups + "schedules:\n  - {name: w, every: weekly, startTime: \"10:00\", endTime: \"12:00\", servers: [ns1], " + more + "}\n"
	}
	for _, c := range []struct {
		name, file, bad, warns string
	}{
		{"a group, a name in other letters, an address", weekly("clients: [printers, Laptop, 192.0.2.1, 192.0.2.0/24]"), "", ""},
		{"a client that nobody knows", weekly("clients: [printers, lapto]"), "", `f.yaml:8: schedules[0].clients[1]: "lapto" is no group and no name of this file: the schedule is refused each time, until a server has a client of that name; did you mean "laptop"?`},
		{"an exclusion that nobody knows", weekly("everyone: true, exclude: [fridge]"), "", `f.yaml:8: schedules[0].exclude[0]: "fridge" is no group`},
		{"a limit that no run may have", weekly("everyone: true, limits: {stuck: -1}"), "schedules[0].limits.stuck: it is -1", ""},
		{"errors beyond all", weekly("everyone: true, limits: {errorPoints: 101}"), "schedules[0].limits.errorPoints", ""},
		{"no time at all", weekly("everyone: true, limits: {expectSeconds: 0}"), "schedules[0].limits.expectSeconds", ""},
		{"a fleet's window that is too short for any drill", small + "window: {startTime: \"10:00\", endTime: \"10:04\"}\n", "window: no drill can ever run in it: the shortest, of 15 s, takes up to 265 s", ""},
		{"one that is just long enough", small + "window: {startTime: \"10:00\", endTime: \"10:05\"}\n", "", ""},
		{"a schedule outside the fleet's window", weekly("everyone: true") + "window: {startTime: \"14:00\", endTime: \"16:00\"}\n", "schedules[0]: it can never run", ""},
		{"one that has no time left in it", weekly("everyone: true, durationSeconds: 300") + "window: {startTime: \"11:55\", endTime: \"12:04\"}\n", "takes up to 550 s", ""},
		{"one that has", weekly("everyone: true, durationSeconds: 300") + "window: {startTime: \"11:55\", endTime: \"12:05\"}\n", "", ""},
		{"a month's hour outside it", small + "window: {startTime: \"14:00\", endTime: \"16:00\"}\nschedules: [{name: m, every: monthly, servers: [ns1], everyone: true}]\n", "schedules[0]: it can never run", ""},
		{"a window of its own that is shorter than the drill", small + "schedules: [{name: w, every: weekly, startTime: \"10:00\", endTime: \"10:01\", servers: [ns1], everyone: true}]\n", "", "schedules[0]: the window is 60 s long and a drill takes up to 280 s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, err := Parse("f.yaml", []byte(c.file))
			if c.bad == "" && err != nil || c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)) {
				t.Fatalf("%v, want %q", err, c.bad)
			}
			if err != nil {
				return
			}
			var said []string
			for _, w := range config.Warnings {
				said = append(said, w.In("f.yaml"))
			}
			if c.warns == "" && said != nil || c.warns != "" && (len(said) != 1 || !strings.Contains(said[0], c.warns)) {
				t.Errorf("%q, want %q", said, c.warns)
			}
		})
	}
}

// Limits that a file leaves out keep their defaults, as they do in the API.
func TestPartOfLimits(t *testing.T) {
	c, err := Parse("f", []byte(small+"schedules: [{name: m, every: monthly, servers: [ns1], everyone: true, limits: {stuck: 2}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := run.DefaultLimits
	want.Stuck = 2
	if got := c.Schedules[0].Spec("ns1").Limits; got != want {
		t.Errorf("%+v", got)
	}
}

// A leaf where the CA's certificate belongs is found before anybody calls.
func TestLeafInsteadOfCA(t *testing.T) {
	ca := fleettest.NewCA(t)
	us, api := ca.Client("controller"), ca.API("api")
	path := filepath.Join(ca.Dir, "fleet.yaml")
	for field, text := range map[string]string{
		"tls":     small + "tls: {ca: " + us.Cert + ", cert: " + us.Cert + ", key: " + us.Key + "}\n",
		"api.tls": small + "api: {listen: \"127.0.0.1:0\", roles: {viewer: [x]}, tls: {ca: " + api.Cert + ", cert: " + api.Cert + ", key: " + api.Key + "}}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		var p *Problems
		if !errors.As(err, &p) || len(p.List) != 1 || p.List[0].Field != field || !strings.Contains(err.Error(), "no CA's") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
