package control_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// An order of which a part would be dropped or overruled is refused, and the
// field at fault is named.
func TestReadJSONIsStrict(t *testing.T) {
	for body, field := range map[string]string{
		`{"everyone":true}`:                   "",
		`{"Everyone":true}`:                   "Everyone",
		`{"everyone":true,"everyone":false}`:  "everyone",
		`{"exclude":["a"],"exclude":[]}`:      "exclude",
		`{"everyone":true,"exlude":["a"]}`:    "exlude",
		`{"everyone":true,"EXCLUDE":["a/1"]}`: "EXCLUDE",
	} {
		w := httptest.NewRecorder()
		var o protocol.Order
		ok := control.ReadJSON(w, httptest.NewRequest(http.MethodPut, "/v1/drill", strings.NewReader(body)), &o)
		var p protocol.Problem
		_ = json.Unmarshal(w.Body.Bytes(), &p)
		if ok != (field == "") || p.Field != field || !ok && p.Status != http.StatusBadRequest {
			t.Errorf("%s: taken %v, %s", body, ok, w.Body)
		}
	}
}
