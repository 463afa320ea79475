package view

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"firebreakdns.io/firebreak/controller/run"
)

//go:embed report.css
var pageCSS string

//go:embed report.html.tmpl
var pageTemplate string

// page is parsed once, when the first one is asked for.
var page = sync.OnceValues(func() (*template.Template, error) {
	return template.New("report").Funcs(template.FuncMap{
		"upper": strings.ToUpper,
		"lower": strings.ToLower,
		"count": count[int],
		"code":  code,
		"named": func(name string, t Table) namedTable { return namedTable{name, t} },
		"head":  func(s string) string { return strings.ToUpper(s[:1]) + strings.ToLower(s[1:]) },
	}).Parse(pageTemplate)
})

// namedTable is a table with its name in the JSON.
type namedTable struct {
	Name  string
	Table Table
}

// code sets what stands between backticks as code. Everything is escaped.
func code(s string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(s, "`") {
		if i%2 == 1 {
			b.WriteString("<code>" + template.HTMLEscapeString(part) + "</code>")
		} else {
			b.WriteString(template.HTMLEscapeString(part))
		}
	}
	return template.HTML(b.String())
}

// HTMLPolicy is the Content-Security-Policy of the page: nothing but its own
// style sheet, known by its hash. The page says so itself, and a server that
// serves it says the same in a header.
func HTMLPolicy() string {
	sum := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}

// HTML writes the report as one page that needs nothing else: no script, no
// font, no picture from anywhere. It can be mailed, filed and printed.
func HTML(w io.Writer, r *run.Report, s Style) error {
	t, err := page()
	if err != nil {
		return fmt.Errorf("the page's template: %w", err)
	}
	v := viewReport(r, s.in())
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{
		"V":        v,
		"Policy":   HTMLPolicy(),
		"CSS":      template.CSS(pageCSS), // ours, from this package
		"Picture":  draw(r),
		"Ring":     coverageRing(r.Coverage),
		"Radius":   ringRadius,
		"Segments": segments(v.Verdicts),
		"Schema":   r.Schema,
		"Amended":  r.Amended,
	})
	if err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}
