package house

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxLines of a file that is no test: longer ones hold more than one concern.
const maxLines = 600

func TestFilesAreShort(t *testing.T) {
	for _, file := range files(t, ".go") {
		if strings.HasSuffix(file, "_test.go") || strings.Contains(path.Base(file), "zz_generated") {
			continue
		}
		if n := strings.Count(read(t, file), "\n"); n > maxLines {
			t.Errorf("%s has %d lines, the most is %d: give each concern a file of its own", file, n, maxLines)
		}
	}
}

func TestFileNames(t *testing.T) {
	for _, file := range files(t, ".go") {
		if base := path.Base(file); strings.Contains(base, "-") || strings.ToLower(base) != base {
			t.Errorf("%s: Go files are named in lower case with underscores", file)
		}
	}
}

func TestNothingIsLeftToDo(t *testing.T) {
	marks := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)
	for _, file := range files(t, ".go") {
		for i, line := range strings.Split(read(t, file), "\n") {
			if m := marks.FindString(line); m != "" {
				t.Errorf("%s:%d: %s: do it, or say in the docs what does not hold", file, i+1, m)
			}
		}
	}
}

func TestPackageComments(t *testing.T) {
	comments := map[string][]string{}
	for _, file := range files(t, ".go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		dir := path.Dir(file)
		if comments[dir] == nil {
			comments[dir] = []string{}
		}
		if f.Doc != nil {
			comments[dir] = append(comments[dir], file)
			want := "Package " + f.Name.Name + " "
			if f.Name.Name == "main" {
				want = "Command "
			}
			if !strings.HasPrefix(f.Doc.Text(), want) {
				t.Errorf("%s: the package comment begins with %q", file, want)
			}
		}
	}
	for dir, in := range comments {
		switch len(in) {
		case 1:
		case 0:
			t.Errorf("%s has no package comment: say what it is for, and its design in ten lines", dir)
		default:
			t.Errorf("%s has %d package comments (%s): keep one", dir, len(in), strings.Join(in, ", "))
		}
	}
}

func TestPluginsLookLikePlugins(t *testing.T) {
	for _, name := range plugins(t) {
		for _, file := range []string{"README.md", "setup.go", "metrics.go"} {
			if found, _ := filepath.Glob(filepath.Join(root, "plugin", name, file)); len(found) == 0 {
				t.Errorf("Plugin/%s has no %s: a plugin looks like CoreDNS's own", name, file)
			}
		}
		if tests, _ := filepath.Glob(filepath.Join(root, "plugin", name, "*_test.go")); len(tests) == 0 {
			t.Errorf("Plugin/%s has no tests", name)
		}
	}
}

// A plugin's README is a man page: the sections are there, in this order.
func TestPluginReadmes(t *testing.T) {
	for _, name := range plugins(t) {
		file := "plugin/" + name + "/README.md"
		if found, _ := filepath.Glob(filepath.Join(root, file)); len(found) == 0 {
			continue // said above
		}
		text := read(t, file)
		if !strings.HasPrefix(text, "# "+name+"\n") {
			t.Errorf("%s begins with %q", file, "# "+name)
		}
		at := 0
		for _, section := range []string{"Name", "Description", "Syntax", "Metrics", "Examples", "Bugs"} {
			i := strings.Index(text[at:], "\n## "+section+"\n")
			if i < 0 {
				t.Errorf("%s has no section %q, or not after the one before it: Name, Description, Syntax, Metrics, Examples, Bugs", file, section)
				continue
			}
			at += i
		}
		if !strings.Contains(text, "*"+name+"* - ") {
			t.Errorf("%s: under Name stands %q and what it does", file, "*"+name+"* - ")
		}
	}
}
