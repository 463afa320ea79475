package view

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
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
