package protocol

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// FieldError is a field that cannot be taken.
type FieldError struct {
	Field   string   // its path, as in limits.stuck or monitors[1].name
	Message string   // what is wrong
	Known   []string // the fields that there are, where it is none of them
}

// Error says the field and what is wrong.
func (e *FieldError) Error() string {
	text := e.Field + ": " + e.Message
	switch len(e.Known) {
	case 0:
	case 1:
		text += ": there is only " + e.Known[0]
	default:
		text += ": there are " + strings.Join(e.Known, ", ")
	}
	return text
}

// Decode reads exactly one JSON value into v, strictly: a field that is not
// known, stands there twice or is written in other letters is a *FieldError, and
// anything after the value is an error too, and so is null, which says nothing.
// What a lenient reader would drop or overrule may be an exclusion.
func Decode(r io.Reader, v any) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if string(bytes.TrimSpace(data)) == "null" {
		return &json.UnmarshalTypeError{Value: "null", Type: reflect.TypeOf(v).Elem()}
	}
	if json.Valid(data) { // else the decoder says best why not
		d := json.NewDecoder(bytes.NewReader(data))
		if err := checkFields(d, reflect.TypeOf(v), ""); err != nil {
			return err
		}
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("more after the JSON value")
	}
	return nil
}

// checkFields walks over one value that is to become a t; nil where anything
// may stand. It is valid JSON, so no token fails.
func checkFields(d *json.Decoder, t reflect.Type, path string) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('['):
		elem := elemOf(t, reflect.Slice, reflect.Array)
		for i := 0; d.More(); i++ {
			if err := checkFields(d, elem, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		if err := checkObject(d, t, path); err != nil {
			return err
		}
	default:
		return nil
	}
	_, err = d.Token() // the end of the list or object
	return err
}

func checkObject(d *json.Decoder, t reflect.Type, path string) error {
	known := fieldsOf(t)
	elem := elemOf(t, reflect.Map)
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		at := name
		if path != "" {
			at = path + "." + name
		}
		field, exact := known[name]
		switch {
		case seen[name]:
			return &FieldError{Field: at, Message: "it stands there twice: keep one"}
		case known != nil && !exact:
			names := make([]string, 0, len(known))
			for k := range known {
				if strings.EqualFold(k, name) {
					return &FieldError{Field: at, Message: fmt.Sprintf("write it %q, in these letters", k)}
				}
				names = append(names, k)
			}
			slices.Sort(names)
			return &FieldError{Field: at, Message: "there is no such field", Known: names}
		case known == nil:
			field = elem
		}
		seen[name] = true
		if err := checkFields(d, field, at); err != nil {
			return err
		}
	}
	return nil
}

// plain is the type behind pointers; nil where it reads itself.
func plain(t reflect.Type) reflect.Type {
	for ; t != nil; t = t.Elem() {
		p := reflect.PointerTo(t)
		if p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			return nil
		}
		if t.Kind() != reflect.Pointer {
			return t
		}
	}
	return nil
}

// elemOf is the type of the values in a t of one of these kinds; nil where it is
// of another.
func elemOf(t reflect.Type, kinds ...reflect.Kind) reflect.Type {
	if t = plain(t); t == nil || !slices.Contains(kinds, t.Kind()) {
		return nil
	}
	return t.Elem()
}

// fieldsOf are the fields of a struct by their names in JSON; nil of anything else.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if t = plain(t); t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "":
			for inner, kind := range fieldsOf(f.Type) {
				out[inner] = kind
			}
		case !f.IsExported():
		case name == "":
			out[f.Name] = f.Type
		default:
			out[name] = f.Type
		}
	}
	return out
}
