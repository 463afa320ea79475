package view

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"firebreakdns.io/firebreak/controller/run"
)

// TestEveryReasonHasAdvice reads the reasons where they are declared, so that a
// new one cannot come without saying what to do.
func TestEveryReasonHasAdvice(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../run/reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) == 0 {
			return true
		}
		reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found++
		if has := Advice(run.Reason(reason)) != ""; has == (run.Reason(reason) == run.FailoverWorked) {
			t.Errorf("%s: advice %v", reason, has)
		}
		return true
	})
	if found < 20 {
		t.Fatalf("only %d reasons found", found)
	}
	for _, v := range verdictOrder {
		if Meaning(v) == "" {
			t.Errorf("%s says nothing of its clients", v)
		}
	}
}

// A client that followed and yet lost most of what was drilled is remarked on:
// one address may be two that ask, of which one did not follow.
func TestFollowedAndLost(t *testing.T) {
	r := passed()
	c := &r.Clients[3]
	c.DrilledQuestions = 20
	for _, tc := range []struct {
		verdict   run.Verdict
		lost      *int
		sampled   bool
		questions int
		says      string
	}{
		{run.Followed, ptr(20), false, 20, "192.0.2.24 (20 of 20)"},
		{run.Followed, ptr(11), true, 20, "192.0.2.24 (about 11 of 20)"},
		{run.Followed, ptr(10), false, 20, ""},
		{run.Followed, nil, false, 20, ""},
		{run.Followed, ptr(20), false, 0, ""}, // a report of before questions were counted
		{run.Stuck, ptr(20), false, 20, ""},
	} {
		c.Verdict, c.Lost, c.LostSampled, c.DrilledQuestions = tc.verdict, tc.lost, tc.sampled, tc.questions
		for _, f := range []Format{FormatTable, FormatHTML} {
			var b bytes.Buffer
			if err := Write(&b, r, f, style()); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(strings.Fields(b.String()), " "); strings.Contains(got, "asks this server only") != (tc.says != "") || !strings.Contains(got, tc.says) {
				t.Errorf("%+v as %s: remarked %v", tc, f, !strings.Contains(got, tc.says))
			}
		}
	}
}

// What a client asks outside the fleet is not seen, so nothing is claimed of it.
func TestStuckClaimsOnlyTheFleet(t *testing.T) {
	if m := Meaning(run.Stuck); !strings.Contains(m, "this fleet") || strings.Contains(m, "no DNS") {
		t.Error(m)
	}
	for _, next := range []string{NextStep(run.Stuck), Advice(run.ClientsStuck)} {
		if !strings.Contains(next, "outside the fleet") {
			t.Error(next)
		}
	}
}
