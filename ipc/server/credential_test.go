package server

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

// Of a request that holds a secret nothing is kept, so a repeat with its key
// runs again.
func TestNothingIsKeptOfACredential(t *testing.T) {
	f := newFake()
	s, path := serve(t, f)
	p := dial(t, path)
	for _, method := range []string{wire.MethodCredentialSet, wire.MethodCredentialRemove, wire.MethodCredentialHand} {
		for range 2 {
			if l := p.call(method, json.RawMessage(`{"name":"OPENAI_API_KEY","secret":"hidden-value","request_key":"k"}`)); !l.OK {
				t.Fatal(l.Error)
			}
		}
	}
	if want := []string{"set OPENAI_API_KEY", "set OPENAI_API_KEY"}; !slices.Equal(f.calls(), want) {
		t.Errorf("called %v", f.calls())
	}
	if n := len(s.keys.byKey); n != 0 {
		t.Errorf("%d requests are kept", n)
	}
}
