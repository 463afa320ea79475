package house

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// A row of a page names tests in backticks, and may name their packages in its last
// column.
var (
	namedTest  = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)`")
	testHeader = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
)

// TestNamedTestsExist: what a page says is shown by a test, is: the test is there,
// and in the packages that its row names, if it names any.
func TestNamedTestsExist(t *testing.T) {
	has := map[string]map[string]bool{} // by package
	all := map[string]bool{}
	for _, file := range files(t, "_test.go") {
		dir := path.Dir(file)
		for _, m := range testHeader.FindAllStringSubmatch(read(t, file), -1) {
			if has[dir] == nil {
				has[dir] = map[string]bool{}
			}
			has[dir][m[1]], all[m[1]] = true, true
		}
	}
	rows := 0
	for _, file := range files(t, ".md") {
		for _, line := range strings.Split(read(t, file), "\n") {
			cells := strings.Split(strings.Trim(line, "| "), " | ")
			named := namedTest.FindAllStringSubmatch(line, -1)
			if !strings.HasPrefix(line, "|") || len(named) == 0 {
				continue
			}
			rows++
			used := map[string]bool{}
			packages := strings.Split(cells[len(cells)-1], ", ")
			if strings.Contains(cells[len(cells)-1], "`") {
				packages = nil
			}
			for _, m := range named {
				found := packages == nil && all[m[1]]
				for _, p := range packages {
					if has[p][m[1]] {
						found, used[p] = true, true
					}
				}
				if !found {
					t.Errorf("%s: there is no %s, or not where its row says: %s", file, m[1], line)
				}
			}
			for _, p := range packages {
				if !used[p] {
					t.Errorf("%s: none of the row's tests is in %s: %s", file, p, line)
				}
			}
		}
	}
	if rows < 20 {
		t.Errorf("%d rows name tests: this looks at the wrong place", rows)
	}
}
