package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"firebreakdns.io/firebreak/controller/run"
	"go.yaml.in/yaml/v3"
)

// strict reads YAML into a struct by its json tags. A decoder would say at which
// line a field of some Go type is not known; people need the field's place in
// their file and what they meant. It also must not guess: an address that was
// taken for a number, or a switch that was taken for a string, is an outage
// later on.
type strict struct {
	problems []Problem
	lines    map[string]int // of every field, by its path
}

var yamlLine = regexp.MustCompile(`line (\d+): (.*)`)

// readYAML reads the one document in data.
func (s *strict) readYAML(data []byte, into any) {
	s.lines = map[string]int{}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		s.bad("", "the file is empty: it needs fleet and servers")
		return
	case err != nil:
		s.syntax(err)
		return
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		s.problems = append(s.problems, Problem{Line: more.Line, Message: "there is a second document after ---: a fleet file is one"})
		return
	}
	if len(doc.Content) != 1 {
		s.bad("", "the file is empty: it needs fleet and servers")
		return
	}
	s.value(doc.Content[0], reflect.ValueOf(into).Elem(), "")
}

func (s *strict) syntax(err error) {
	p := Problem{Message: "this is no YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		p.Message = "this is no YAML: " + m[2]
	}
	s.problems = append(s.problems, p)
}

// bad notes a problem in the field.
func (s *strict) bad(field, format string, args ...any) {
	s.problems = append(s.problems, s.problem(field, format, args...))
}

// problem is one in the field, at its line or that of what it stands in.
func (s *strict) problem(field, format string, args ...any) Problem {
	p := Problem{Field: field, Message: fmt.Sprintf(format, args...)}
	for at := field; ; {
		if line, ok := s.lines[at]; ok {
			p.Line = line
			break
		}
		i := strings.LastIndexAny(at, ".[")
		if i < 0 {
			break
		}
		at = at[:i]
	}
	return p
}

func (s *strict) value(n *yaml.Node, v reflect.Value, path string) {
	s.lines[path] = n.Line
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		s.bad(path, "anchors and aliases are not read here: write it out")
		return
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return // as if it were left out
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if l, limits := v.Interface().(*run.Limits); limits {
			*l = run.DefaultLimits // what they leave out keeps its default, as in the API
		}
		s.value(n, v.Elem(), path)
	case reflect.Struct:
		s.fields(n, v, path)
	case reflect.Map:
		s.entries(n, v, path)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			s.bad(path, "want a list, as in [a, b]")
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, item := range n.Content {
			s.value(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	default:
		s.scalar(n, v, path)
	}
}

func (s *strict) fields(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		s.bad(path, "want fields with values, as in name: value")
		return
	}
	index := map[string]int{}
	var names []string
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		index[name] = i
		names = append(names, name)
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		s.lines[at] = key.Line
		field, known := index[key.Value]
		switch line, twice := seen[key.Value]; {
		case !known || key.Kind != yaml.ScalarNode:
			s.bad(at, "there is no such field: %s", DidYouMean(key.Value, names))
			continue
		case twice:
			s.bad(at, "it stands there twice, first in line %d: keep one", line)
			continue
		}
		seen[key.Value] = key.Line
		s.value(value, v.Field(field), at)
	}
}

func (s *strict) entries(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		s.bad(path, "want names with values, as in name: [value]")
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		if key.Kind != yaml.ScalarNode || key.Value == "" {
			s.lines[path] = key.Line
			s.bad(path, "a name is missing")
			continue
		}
		if v.MapIndex(reflect.ValueOf(key.Value)).IsValid() {
			s.lines[at] = key.Line
			s.bad(at, "it stands there twice: keep one")
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		if value.Kind == yaml.ScalarNode && item.Kind() == reflect.Slice { // one is a list of one
			value = &yaml.Node{Kind: yaml.SequenceNode, Line: value.Line, Content: []*yaml.Node{value}}
		}
		s.value(value, item, at)
		v.SetMapIndex(reflect.ValueOf(key.Value), item)
	}
}

func (s *strict) scalar(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		s.bad(path, "want one value, not a list or fields")
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value)
	case reflect.Bool:
		if n.Value != "true" && n.Value != "false" || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			s.bad(path, "%q: want true or false", n.Value)
			return
		}
		v.SetBool(n.Value == "true")
	case reflect.Int:
		i, err := strconv.Atoi(n.Value)
		if err != nil {
			s.bad(path, "%q: want a whole number", n.Value)
			return
		}
		v.SetInt(int64(i))
	case reflect.Float64:
		f, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || f != f {
			s.bad(path, "%q: want a number", n.Value)
			return
		}
		v.SetFloat(f)
	default:
		s.bad(path, "this cannot be set in a file") // a field of a new kind: its test fails
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
