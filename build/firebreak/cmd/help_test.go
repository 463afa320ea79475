package cmd

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelpHasExamples holds every command to saying what it is for, with an
// example that can be typed.
func TestHelpHasExamples(t *testing.T) {
	a := &app{Streams: Streams{Env: func(string) string { return "" }, Err: os.Stderr}, program: "firebreak"}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" || !strings.Contains(cmd.Example, "  "+cmd.CommandPath()) && cmd.HasParent() {
			t.Errorf("%s: %q, example %q", cmd.CommandPath(), cmd.Short, cmd.Example)
		}
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			if !strings.HasPrefix(line, "  firebreak") {
				t.Errorf("%s: example %q", cmd.CommandPath(), line)
			}
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(a.root())
}
