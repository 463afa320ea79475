package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const smallFleet = `fleet: office
servers:
  - {name: ns1, dns: ["192.0.2.1:53"], control: "unix:///run/firebreak/ns1.sock"}
  - {name: ns2, dns: [192.0.2.2], control: "unix:///run/firebreak/ns2.sock"}
`

// --check finds what a controller would not start with, and what it would start
// with and could never use.
func TestCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	for _, c := range []struct {
		name, more     string
		environ        []string
		says, bad, out string
	}{
		{name: "in order", out: "is in order"},
		{name: "an unknown client", more: "schedules: [{name: m, every: monthly, servers: [ns1], clients: [lapto]}]\n", says: "warning: " + file + `:5: schedules[0].clients[0]: "lapto"`, out: "is in order"},
		{name: "a schedule that can never run", more: "schedules: [{name: m, every: monthly, servers: [ns1], everyone: true}]\nwindow: {startTime: \"09:00\", endTime: \"10:00\"}\n", bad: "it can never run"},
		{name: "a variable that is misspelt", environ: []string{"FIREBREAK_DRILL_GAP_SECOND=0"}, bad: `did you mean "FIREBREAK_DRILL_GAP_SECONDS"?`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(smallFleet+c.more), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, said bytes.Buffer
			err := checkFile(file, c.environ, &out, &said)
			if c.bad == "" && err != nil || c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)) {
				t.Errorf("%v, want %q", err, c.bad)
			}
			if !strings.Contains(out.String(), c.out) || c.out == "" && out.Len() > 0 || !strings.Contains(said.String(), c.says) || c.says == "" && said.Len() > 0 {
				t.Errorf("%q, %q", &out, &said)
			}
		})
	}
}
