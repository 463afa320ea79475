// Package document writes measured figures into the pages that show them, so that
// no figure in a page is typed by hand.
package document

import (
	"errors"
	"os"
	"strings"
)

// Write puts text between a page's markers of that name, and leaves the rest.
func Write(path, name, text string) error {
	b, err := os.ReadFile(path) //nolint:gosec // the caller's own file
	if err != nil {
		return err
	}
	begin, end := "<!-- "+name+": begin -->\n", "<!-- "+name+": end -->"
	head, rest, ok := strings.Cut(string(b), begin)
	_, tail, also := strings.Cut(rest, end)
	if !ok || !also {
		return errors.New(path + " has no place for figures: it wants the lines " + strings.TrimSpace(begin) + " and " + end)
	}
	return os.WriteFile(path, []byte(head+begin+text+end+tail), 0o644) //nolint:gosec // to be read
}
