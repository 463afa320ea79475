package view

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestPageStandsAlone: nothing on the page is fetched, run, or allowed to be
// by its own policy, whatever the report says.
func TestPageStandsAlone(t *testing.T) {
	var b bytes.Buffer
	if err := HTML(&b, hostile(), Style{}); err != nil {
		t.Fatal(err)
	}
	doc, err := html.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	policy := ""
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "script", "img", "link", "iframe", "object", "embed", "a", "form", "foreignObject":
			t.Errorf("the page has a <%s>", n.Data)
		case "meta":
			if attr(n, "http-equiv") == "Content-Security-Policy" {
				policy = attr(n, "content")
			}
		case "style":
			sum := sha256.Sum256([]byte(n.FirstChild.Data))
			if want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
				t.Errorf("the policy %q does not allow the page's own style %s", policy, want)
			}
			if strings.Contains(n.FirstChild.Data, "@import") || strings.Contains(n.FirstChild.Data, "url(h") {
				t.Error("the style sheet fetches something")
			}
		}
		for _, a := range n.Attr {
			if a.Key == "style" || a.Key == "href" || a.Key == "src" || strings.HasPrefix(a.Key, "on") {
				t.Errorf("<%s> has %s=%q: the policy forbids it", n.Data, a.Key, a.Val)
			}
		}
	}
	if policy != HTMLPolicy() || !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("policy %q", policy)
	}
}

// TestNothingMovesTheCursor: names that others wrote reach a terminal without
// their control characters.
func TestNothingMovesTheCursor(t *testing.T) {
	for _, f := range []Format{FormatTable, FormatWide, FormatName, FormatHTML} {
		var b bytes.Buffer
		if err := Write(&b, hostile(), f, style()); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.String(), "\x1b\u202e\x07\x00") {
			t.Errorf("%s has a control character", f)
		}
	}
	for _, line := range append(Live(hostile(), 80, 24, style()), Changes(nil, hostile(), style())...) {
		if strings.ContainsAny(line, "\x1b\u202e") {
			t.Errorf("live line has a control character: %q", line)
		}
	}
}
