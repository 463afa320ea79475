package run

import (
	"encoding/json"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// FuzzRecording judges by what a server may say at its worst: broken, of another
// version, or lying. The run ends, and its report can be read.
func FuzzRecording(f *testing.F) {
	f.Add([]byte(`{"clients":[{"address":"10.0.0.1","drilled":3,"drilledQuestions":3,"firstDrilledMs":1,"sampleBits":3,"samples":[{"hash":"8","drilled":true,"firstMs":1,"lastMs":2}]}]}`), []byte(`{"clients":[{"address":"10.0.0.1","answers":1,"firstAnswerMs":5,"lastAnswerMs":9}]}`))
	f.Add([]byte(`{"clients":[{"address":"x","sampleBits":-1}]}`), []byte(`{"clients":[{"address":"::ffff:10.0.0.1","sampleBits":900,"samplesUntilMs":-5}]}`))
	f.Add([]byte(`{"clients":[{"address":"10.0.0.1","drilled":18446744073709551615,"drilledQuestions":18446744073709551615,"firstDrilledMs":-9223372036854775808,"samples":[{"hash":"0","drilled":true}]}]}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, drilled, other []byte) {
		var a, b protocol.Recording
		if json.Unmarshal(drilled, &a) != nil || json.Unmarshal(other, &b) != nil {
			return
		}
		s := bigDay()
		s.until(t, func() bool { return s.run.Phase == Recording })
		late := s.now.Add(time.Hour)
		for name, rec := range map[string]*protocol.Recording{"a": &a, "b": &b} {
			rec.Drill, rec.BootID, rec.Frozen = s.run.Spec.ID, s.server(name).bootID(), true
			rec.NowMs = late.UnixMilli()
		}
		for range 200 {
			o := s.observe()
			o.Parts = map[string]protocol.Recording{"a": a, "b": b}
			s.run, _ = Step(s.run, o, late)
			late = late.Add(time.Minute)
			if s.run.Phase.Final() {
				break
			}
		}
		if !s.run.Phase.Final() {
			t.Fatal("the run does not end")
		}
		r := s.run.Report()
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
		if r.Lost != nil && *r.Lost < 0 || r.Drilled < 0 {
			t.Fatalf("%s lost of %d drilled", lostText(r.Lost), r.Drilled)
		}
		for _, c := range r.Clients {
			if c.Drilled < 0 || c.Lost != nil && (*c.Lost < 0 || *c.Lost > c.Drilled) {
				t.Fatalf("%+v", c)
			}
		}
	})
}
