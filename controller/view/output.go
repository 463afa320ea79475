package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"firebreakdns.io/firebreak/controller/run"
)

// Format is how something is written out.
type Format string

const (
	FormatTable Format = "table"
	FormatWide  Format = "wide" // a table with everything
	FormatJSON  Format = "json"
	FormatYAML  Format = "yaml" // the JSON as YAML, in the same order
	FormatName  Format = "name" // kind/name, one a line, for scripts
	FormatHTML  Format = "html" // a page; reports only
)

// Formats that everything can be written in.
var formats = []Format{FormatTable, FormatWide, FormatJSON, FormatYAML, FormatName}

// ParseFormat reads a format's name; html only where a page can be made.
func ParseFormat(s string, page bool) (Format, error) {
	f := Format(s)
	if slices.Contains(formats, f) || page && f == FormatHTML {
		return f, nil
	}
	if f == FormatHTML {
		return "", fmt.Errorf("only a report can be a page: use table, wide, json, yaml or name")
	}
	names := "table, wide, json, yaml or name"
	if page {
		names = "table, wide, json, yaml, name or html"
	}
	return "", fmt.Errorf("no output format %q: use %s", s, names)
}

// Style is what a rendering depends on beside what it shows.
type Style struct {
	Color    bool
	Location *time.Location // of times in tables and pages; nil: UTC
	Now      time.Time      // what "ago" counts from
}

func (s Style) in() *time.Location {
	if s.Location == nil {
		return time.UTC
	}
	return s.Location
}

// Write writes v, a *run.Report, *run.Plan, *ServerList, *DrillList,
// *ClientList or *AffinityList. Nothing is written unless all of it can be.
func Write(w io.Writer, v any, f Format, s Style) error {
	var out []byte
	var err error
	switch f {
	case FormatJSON:
		out, err = indented(v)
	case FormatYAML:
		out, err = asYAML(v)
	case FormatName:
		out, err = names(v)
	case FormatHTML:
		r, ok := v.(*run.Report)
		if !ok {
			return fmt.Errorf("only a report can be a page")
		}
		return HTML(w, r, s)
	default:
		out, err = text(v, f == FormatWide, s)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

func text(v any, wide bool, s Style) ([]byte, error) {
	p := &paper{color: s.Color}
	switch v := v.(type) {
	case *run.Report:
		reportText(p, viewReport(v, s.in()), wide)
	case *run.Plan:
		planText(p, viewPlan(v, s.Now))
	case *ServerList:
		off := ""
		if !v.Enabled {
			off = "Drills are switched off on the controller (drills.enabled)."
		}
		listText(p, serverTable(v, s.Now), wide, "The fleet has no servers.", off)
	case *DrillList:
		more := ""
		if v.Next != "" {
			more = "There are older ones: --before " + v.Next
		}
		listText(p, drillTable(v, s.in()), wide, "No drill has been run yet. Try `firebreak drill plan SERVER --everyone`.", more, unsavedRuns(v))
	case *ClientList:
		listText(p, seenTable(v, s.Now), wide, "No client has been seen yet.", missing(v.Unheard))
	case *AffinityList:
		listText(p, affinityTable(v, s.Now), wide, "No client has been seen yet.", missing(v.Unheard))
	default:
		return nil, fmt.Errorf("nothing known of %T", v)
	}
	return []byte(p.String()), nil
}

// indented is v as JSON. Names with < or & stay readable: this is no HTML.
func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// asYAML goes by way of JSON, so that the two have the same names and order.
func asYAML(v any) ([]byte, error) {
	j, err := indented(v)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(j, &doc); err != nil {
		return nil, err
	}
	block(&doc)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

// block lets the encoder choose the style: JSON's braces and quotes are only
// kept where YAML needs them.
func block(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode && len(n.Content) > 0 {
		n.Style = 0
	}
	if n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, c := range n.Content {
		block(c)
	}
}

func names(v any) ([]byte, error) {
	var b strings.Builder
	line := func(kind, name string) { fmt.Fprintf(&b, "%s/%s\n", kind, clean(name)) }
	switch v := v.(type) {
	case *run.Report:
		line("drill", v.ID)
	case *run.Plan:
		line("server", v.Server)
	case *ServerList:
		for _, s := range v.Servers {
			line("server", s.Name)
		}
	case *DrillList:
		for _, d := range v.Drills {
			line("drill", d.ID)
		}
	case *ClientList:
		for _, c := range v.Clients {
			line("client", c.Address)
		}
	case *AffinityList:
		for _, c := range v.Clients {
			line("client", c.Address)
		}
	default:
		return nil, fmt.Errorf("nothing known of %T", v)
	}
	return []byte(b.String()), nil
}
