package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// clock are the functions of package time that read it or wait for it.
var clock = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true,
	"Tick": true, "NewTimer": true, "NewTicker": true,
}

// clockReads are where Go source uses the clock.
func clockReads(name string, src any) ([]string, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []string
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && clock[sel.Sel.Name] {
			found = append(found, fset.Position(n.Pos()).String()+": time."+sel.Sel.Name)
		}
		return true
	})
	return found, nil
}

func TestEnginesDoNotReadTheClock(t *testing.T) {
	for _, file := range files(t, ".go") {
		if !pure(path.Dir(file)) || strings.HasSuffix(file, "_test.go") {
			continue
		}
		found, err := clockReads(file, read(t, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			t.Errorf("%s: in an engine time is a parameter, so that a run can be replayed", f)
		}
	}
	if found, err := clockReads("x.go", "package x\nimport \"time\"\nvar t = time.Now()\nvar f = time.Sleep\nvar d = time.Second"); err != nil || len(found) != 2 {
		t.Errorf("Clock reads of the sample = %q, %v, want 2", found, err)
	}
}
