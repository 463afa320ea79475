package run

import (
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestTranscripts runs every story under testdata/transcripts: input, and what
// the machine said and did. Write the output anew with -rewrite, and read it.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		s := newSim()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				s = newSim()
				return ""
			}
			return s.command(t, d)
		})
	})
}
