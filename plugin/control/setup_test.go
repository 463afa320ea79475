package control

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/coredns/caddy"
)

func TestParse(t *testing.T) {
	tests := []struct {
		in   string
		want string // part of the error; "" is right
	}{
		{"control 127.0.0.1:8153 {\n tls a b c\n}", ""},
		{"control :8153 {\n tls a b c\n allow controller jane\n allow john\n}", ""},
		{"control [::1]:8153 {\n tls a b c\n}", ""},
		{"control unix:///run/firebreak/control.sock", ""},
		{"control", "want one address"},
		{"control 127.0.0.1:8153 127.0.0.1:8154", "want one address"},
		{"control 127.0.0.1:8153", "never plain on TCP"},
		{"control 127.0.0.1", "is no address"},
		{"control localhost:8153 {\n tls a b c\n}", "is no address"},
		{"control http://127.0.0.1:8153 {\n tls a b c\n}", "is no address"},
		{"control 127.0.0.1:8153 {\n tls a b\n}", "three files"},
		{"control 127.0.0.1:8153 {\n tls a b c\n tls a b c\n}", "twice"},
		{"control 127.0.0.1:8153 {\n tls a b c\n allow\n}", "names of callers"},
		{"control 127.0.0.1:8153 {\n tls a b c\n allow Jane\n}", "cannot be a caller's name"},
		{"control 127.0.0.1:8153 {\n tls a b c\n plain\n}", "unknown property"},
		{"control unix://run/x.sock", "is absolute"},
		{"control unix:///" + strings.Repeat("x", 110), "longer than"},
		{"control unix:///run/x.sock {\n allow jane\n}", "neither tls nor allow"},
		{"control unix:///a\ncontrol unix:///b", "once per Server Block"},
		{"control :8153 {\n tls a b c\n socket unix:///run/x.sock\n}", ""},
		{"control :8153 {\n tls a b c\n socket\n}", "wants the unix socket's path"},
		{"control :8153 {\n tls a b c\n socket 127.0.0.1:1\n}", "wants the unix socket's path"},
		{"control :8153 {\n tls a b c\n socket unix://run/x.sock\n}", "is absolute"},
		{"control :8153 {\n tls a b c\n socket unix:///a\n socket unix:///b\n}", "twice"},
		{"control unix:///a {\n socket unix:///b\n}", "is a unix socket already"},
	}
	for _, tc := range tests {
		_, err := parse(caddy.NewTestController("dns", tc.in))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("Parse of %q = %v, want %q", tc.in, err, tc.want)
		}
	}
}

func TestAllowDefaultsToTheController(t *testing.T) {
	o, err := parse(caddy.NewTestController("dns", "control :8153 {\n tls a b c\n}"))
	if err != nil || len(o.allow) != 1 || !o.allow["controller"] {
		t.Errorf("Callers = %v, %v, want the controller alone", o.allow, err)
	}
}

func TestOneEndpointPerProcess(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	_, err := caddy.Start(input("a.:0 {\n bind 127.0.0.1\n control unix://" + sock + "\n}\nb.:0 {\n bind 127.0.0.1\n control unix://" + sock + "2\n}\n"))
	if err == nil || !strings.Contains(err.Error(), "one control endpoint") {
		t.Errorf("Start with two endpoints = %v, want that there is one", err)
	}
}

func TestReadyState(t *testing.T) {
	for corefile, want := range map[string][2]bool{
		". {\n whoami\n}": {false, false},
		". {\n ready\n}":  {true, false},
		". {\n ready :8181 {\n monitor until-ready\n }\n}":                             {true, false},
		". {\n ready {\n monitor continuously\n }\n}":                                  {true, true},
		"(common) {\n ready {\n monitor continuously\n }\n}\n. {\n import common\n}":   {true, true},
		"a {\n ready {\n monitor continuously\n }\n}\nb {\n ready\n}":                  {true, false},
		"a {\n ready\n}\nb {\n ready {\n monitor continuously\n }\n}\nc {\n whoami\n}": {true, true},
	} {
		got, _ := readyState(input(corefile))
		if got.Configured != want[0] || got.Continuous != want[1] {
			t.Errorf("Readiness of %q = %+v, want %v", corefile, *got, want)
		}
	}
}

// Without the directive, providers are harmless.
func TestProvideWithoutControl(t *testing.T) {
	s := &site{t: t}
	s.start(".:0 {\n bind 127.0.0.1\n fake\n whoami\n}\n")
	Changed()
}
