package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
)

// listener is another client, which follows the rules and the rooms alone and
// asks for nothing.
type listener struct {
	t *testing.T
	f *client.Follower

	mu      sync.Mutex
	changed chan struct{}
	rules   map[string]wire.Rule
	rooms   map[string]wire.Room
	events  []string
}

func (m *machine) listen() *listener {
	m.t.Helper()
	l := &listener{t: m.t, changed: make(chan struct{}), rules: map[string]wire.Rule{}, rooms: map[string]wire.Room{}}
	dial := func(ctx context.Context) (*client.Client, error) {
		return client.Dial(ctx, m.socket(), client.Options{Client: "e2e-listener"})
	}
	l.f = client.Follow(context.Background(), dial, []string{wire.TopicRules, wire.TopicRooms}, l)
	m.t.Cleanup(l.f.Close)
	return l
}

// State implements client.Handler.
func (l *listener) State(client.State) {}

// Snapshot implements client.Handler.
func (l *listener) Snapshot(topic string, items []json.RawMessage, _ string) {
	l.update(func() {
		for _, it := range items {
			if topic == wire.TopicRules {
				put(l.rules, it, func(r wire.Rule) string { return r.ID })
			} else {
				put(l.rooms, it, func(r wire.Room) string { return r.ID })
			}
		}
		l.events = append(l.events, topic)
	})
}

// Delta implements client.Handler.
func (l *listener) Delta(_ string, e wire.Event) {
	l.update(func() {
		l.events = append(l.events, e.Event)
		switch e.Event {
		case wire.EvRule:
			var c wire.RuleChange
			switch err := json.Unmarshal(e.Data, &c); {
			case err != nil:
				l.t.Error(err)
			case c.Rule != nil:
				l.rules[c.ID] = *c.Rule
			case c.ID != "":
				delete(l.rules, c.ID)
			default:
				for id, r := range l.rules {
					if r.For == "mission" && r.Mission == c.Mission {
						delete(l.rules, id)
					}
				}
			}
		case wire.EvRoomChanged:
			put(l.rooms, e.Data, func(r wire.Room) string { return r.ID })
		}
	})
}

func put[T any](into map[string]T, data json.RawMessage, id func(T) string) {
	var x T
	if json.Unmarshal(data, &x) == nil {
		into[id(x)] = x
	}
}

func (l *listener) update(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *listener) wait(what string, cond func() bool) {
	l.t.Helper()
	late := time.After(waitLimit)
	for {
		l.mu.Lock()
		ok, changed, seen := cond(), l.changed, fmt.Sprint(l.events, l.rules, l.rooms)
		l.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-late:
			l.t.Fatalf("waited for %s: %s", what, seen)
		}
	}
}

// TestRulesAndRoomsAreTold: what one client does with the rules, and where the
// workers are, is seen by another one without asking.
func TestRulesAndRoomsAreTold(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v, l := m.watch(), m.listen()
	l.wait("what is there", func() bool { return len(l.events) >= 2 })
	repo := m.repo("repo")

	made := do[wire.RuleResult](v, wire.MethodRuleAdd, wire.RuleAddParams{Effect: "deny", Folder: repo, About: "git push *"}).Rule
	l.wait("a rule that was added", func() bool { return l.rules[made.ID].Effect == "deny" })
	do[wire.RuleResult](v, wire.MethodRuleEdit, wire.RuleEditParams{ID: made.ID, Pattern: "git push origin *"})
	l.wait("its edit", func() bool { return l.rules[made.ID].Pattern == "git push origin *" })

	// One that an answer makes, and its use.
	host := v.begin(m.demoTerms(repo, "demo:command touch made.txt\ndemo:turns 2\ndemo:wait"))
	room := do[wire.RoomMessagesResult](v, wire.MethodRoomMessages, wire.RoomMessagesParams{Room: host.ID}).Room.ID
	l.wait("a new room", func() bool {
		return slices.Equal(l.rooms[room].Workers, []string{host.ID}) && l.rooms[room].Mission == host.ID
	})
	ask, _ := v.asked(host.ID, "touch made.txt")
	v.answer(ask, wire.AnswerParams{Allow: true, For: "mission"})
	rule := func() (r wire.Rule) {
		for _, x := range l.rules {
			if x.For == "mission" {
				r = x
			}
		}
		return r
	}
	l.wait("a rule that an answer made, and its use", func() bool { r := rule(); return r.Mission == host.ID && r.Uses == 1 })

	// A worker that moves into the room of another one, and out with its end.
	terms := m.demoTerms(repo, fmt.Sprintf("demo:mcp join_room {\"room_id\":%q}\ndemo:turns 2", room))
	terms.Worktree = true
	guest := v.begin(terms)
	move, _ := v.asked(guest.ID, "join_room")
	v.answer(move, wire.AnswerParams{Allow: true})
	l.wait("a move", func() bool {
		in := slices.Sorted(slices.Values(l.rooms[room].Workers))
		return slices.Equal(in, slices.Sorted(slices.Values([]string{host.ID, guest.ID}))) && len(l.rooms["r-"+guest.ID[2:]].Workers) == 0
	})
	do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: guest.ID})
	l.wait("the end of the guest", func() bool { return slices.Equal(l.rooms[room].Workers, []string{host.ID}) })

	do[wire.RuleResult](v, wire.MethodRuleRevoke, wire.RuleRevokeParams{ID: made.ID})
	l.wait("that it is revoked", func() bool { _, ok := l.rules[made.ID]; return !ok })
	do[wire.MissionResult](v, wire.MethodMissionStop, wire.MissionParams{ID: host.ID})
	l.wait("that the mission took its rules along", func() bool { return len(l.rules) == 0 })
	l.wait("that the room is empty", func() bool { return len(l.rooms[room].Workers) == 0 })
	if got := do[wire.RuleListResult](v, wire.MethodRuleList, wire.RuleListParams{}).Rules; !reflect.DeepEqual(got, []wire.Rule{}) {
		t.Errorf("left: %+v", got)
	}
}
