package protocol

import (
	"errors"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Stuck int `json:"stuck"`
}

type outer struct {
	inner2
	Everyone bool              `json:"everyone"`
	Limits   *inner            `json:"limits"`
	List     []inner           `json:"list"`
	ByName   map[string]inner  `json:"byName"`
	Texts    map[string]string `json:"texts"`
	At       time.Time         `json:"at"`
	Plain    int
	Hidden   int `json:"-"`
	Any      any `json:"any"`
}

type inner2 struct {
	Deep string `json:"deep"`
}

// Every way in which a lenient reader would take another field than was meant.
func TestDecodeIsStrict(t *testing.T) {
	for _, c := range []struct{ body, field, says string }{
		{`{"everyone":true}`, "", ""},
		{`{"deep":"x","Plain":1,"at":"2026-11-30T03:15:00Z","any":{"a":[1,{"b":2}]}}`, "", ""},
		{`{"everyone":null,"limits":null,"list":null}`, "", ""},
		{`{"limits":{"stuck":1},"list":[{"stuck":1},{"stuck":2}],"byName":{"a":{"stuck":1},"A":{"stuck":2}},"texts":{"Everyone":"x"}}`, "", ""},
		{`{"Everyone":true}`, "Everyone", `write it "everyone"`},
		{`{"EVERYONE":true}`, "EVERYONE", `write it "everyone"`},
		{`{"everyone":true,"everyone":false}`, "everyone", "twice"},
		{`{"everyone":true,"everyone":true}`, "everyone", "twice"},
		{`{"everyone":true,"Everyone":false}`, "Everyone", `write it "everyone"`},
		{`{"\u0065veryone":true,"everyone":false}`, "everyone", "twice"},
		{`{"limits":{"Stuck":1}}`, "limits.Stuck", `write it "stuck"`},
		{`{"limits":{"stuck":1,"stuck":1}}`, "limits.stuck", "twice"},
		{`{"list":[{},{"stuck":1,"stuck":1}]}`, "list[1].stuck", "twice"},
		{`{"byName":{"a":{"stuk":1}}}`, "byName.a.stuk", "no such field"},
		{`{"byName":{"a":{},"a":{}}}`, "byName.a", "twice"},
		{`{"texts":{"a":"1","a":"2"}}`, "texts.a", "twice"},
		{`{"any":{"a":1,"a":2}}`, "any.a", "twice"},
		{`{"Deep":"x"}`, "Deep", `write it "deep"`},
		{`{"plain":1}`, "plain", `write it "Plain"`},
		{`{"hidden":1}`, "hidden", "no such field: there are Plain, any"},
		{`{"nobody":true}`, "nobody", "no such field"},
	} {
		var o outer
		err := Decode(strings.NewReader(c.body), &o)
		var fe *FieldError
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s: %v", c.body, err)
		case c.field != "" && (!errors.As(err, &fe) || fe.Field != c.field || !strings.Contains(fe.Error(), c.says)):
			t.Errorf("%s: %v, want %s: %s", c.body, err, c.field, c.says)
		}
	}
	for _, body := range []string{``, `{`, `{"everyone":true}{"everyone":true}`, `{"everyone":true} x`, strings.Repeat("[", 100_000)} {
		if err := Decode(strings.NewReader(body), &outer{}); err == nil {
			t.Errorf("%.40s was taken", body)
		}
	}
	var o outer
	if err := Decode(strings.NewReader(`{"everyone":true,"limits":{"stuck":3}}`), &o); err != nil || !o.Everyone || o.Limits.Stuck != 3 {
		t.Errorf("%v %+v", err, o)
	}
}
