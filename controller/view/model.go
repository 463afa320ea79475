package view

import "slices"

// Tone says how a value is to be taken. Renderings show it as a color where
// they have any; the words never depend on it.
type Tone string

const (
	Plain  Tone = ""
	Good   Tone = "good"
	Bad    Tone = "bad"
	Warn   Tone = "warn"
	Dim    Tone = "dim"
	Strong Tone = "strong"
)

// Value is something to show, already in words: both the table and the page
// print Text as it is, so that they cannot round differently.
type Value struct {
	Text string
	Tone Tone
}

// Pair is a labelled value. Field is where it stands in the JSON.
type Pair struct {
	Field string
	Label string
	Value Value
	Note  string // what the value is made of, or how to read it
}

// Column is a column of a Table. Field is its cells' name in the JSON.
type Column struct {
	Field string
	Head  string
	Right bool // numbers: aligned to the right
	Wide  bool // only shown in wide tables and on the page
}

// Table is rows of values, one per column.
type Table struct {
	Columns []Column
	Rows    [][]Value
}

// narrow is the table without its wide columns.
func (t Table) narrow() Table {
	keep := make([]int, 0, len(t.Columns))
	out := Table{}
	for i, c := range t.Columns {
		if !c.Wide {
			keep = append(keep, i)
			out.Columns = append(out.Columns, c)
		}
	}
	for _, row := range t.Rows {
		cells := make([]Value, 0, len(keep))
		for _, i := range keep {
			cells = append(cells, row[i])
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}

// only is the table with the named columns, in its own order.
func (t Table) only(fields ...string) Table {
	picked := Table{Rows: t.Rows}
	for _, c := range t.Columns {
		c.Wide = !slices.Contains(fields, c.Field)
		picked.Columns = append(picked.Columns, c)
	}
	return picked.narrow()
}

func plain(text string) Value { return toned(text, Plain) }

// toned is where foreign text enters the model, so it is cleaned here.
func toned(text string, tone Tone) Value { return Value{Text: clean(text), Tone: tone} }
