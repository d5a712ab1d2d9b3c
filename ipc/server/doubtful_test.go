package server

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

// Whom a worker may have had started reads like a person and decides nothing,
// whether there was doubt from the start or only at the decision.
func TestDoubtfulPeersDecideNothing(t *testing.T) {
	doubtful := Actor{Doubtful: true, Why: "it was started by cron"}
	for how, set := range map[string]func(*fake){
		"from the start": func(f *fake) { f.actor, f.becomes = doubtful, &doubtful },
		"found out late": func(f *fake) { f.becomes = &doubtful },
	} {
		t.Run(how, func(t *testing.T) {
			f := newFake()
			set(f)
			_, path := serve(t, f)
			p := dial(t, path)
			var want []string
			for name, m := range methods {
				if m.class != decide {
					continue
				}
				l := p.call(name, json.RawMessage(`{"id":"m1","name":"n","digest":"d","text":"t","request_key":"`+name+`"}`))
				if l.Code != wire.CodeForbiddenForWorkers || !strings.Contains(l.Error, "started by cron") {
					t.Errorf("%s: %+v", name, l.Response)
				}
				want = append(want, name)
			}
			for _, name := range []string{wire.MethodMissionList, wire.MethodServiceStatus} {
				if l := p.call(name, nil); !l.OK {
					t.Errorf("%s: %+v", name, l.Response)
				}
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if !slices.Equal(f.refused, want) || len(f.called) != 0 || len(f.approval) != 0 {
				t.Errorf("recorded %v, want %v; did %v", f.refused, want, f.called)
			}
		})
	}
}

// Nor has the service run programs for them, which could be theirs and would run
// beside the service, not below the worker.
func TestDoubtfulPeersProbeNothing(t *testing.T) {
	doubtful := Actor{Doubtful: true, Why: "it was started by cron"}
	for how, set := range map[string]func(*fake){
		"from the start": func(f *fake) { f.actor, f.becomes = doubtful, &doubtful },
		"found out late": func(f *fake) { f.becomes = &doubtful },
	} {
		t.Run(how, func(t *testing.T) {
			f := newFake()
			set(f)
			_, path := serve(t, f)
			p := dial(t, path)
			want := []string{wire.MethodMissionCheck, wire.MethodProviderList}
			for _, name := range want {
				id := p.send(name, json.RawMessage(`{"env":{"PATH":"/tmp/theirs"}}`))
				if l := p.get(); l.ID != id || l.Code != wire.CodeForbiddenForWorkers {
					t.Fatalf("%s: %+v", name, l.Response)
				}
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if !slices.Equal(f.refused, want) || len(f.started) > 0 {
				t.Errorf("recorded %v, want %v; %d ran", f.refused, want, len(f.started))
			}
		})
	}
}

// Their connections take no place of a person's.
func TestDoubtfulPeersTakeNoPlaceOfPersons(t *testing.T) {
	f := newFake()
	f.actor = Actor{Doubtful: true}
	_, path := serve(t, f, func(s *Server) { s.max = 1 })
	if l := dial(t, path).call(wire.MethodNegotiate, nil); !l.OK {
		t.Fatalf("%+v", l.Response)
	}
	f.next(Actor{})
	if l := dial(t, path).call(wire.MethodNegotiate, nil); !l.OK {
		t.Errorf("a person: %+v", l.Response)
	}
}
