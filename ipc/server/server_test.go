package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
)

func TestBadInputIsAnsweredAndTheConnectionLives(t *testing.T) {
	f := newFake()
	_, path := serve(t, f)
	p := dial(t, path)
	long := strings.Repeat("i", 129)
	for _, c := range []struct {
		line, id, says string
		code           wire.Code
	}{
		{`hello`, "", "not a JSON object", wire.CodeInvalidParams},
		{"", "", "not a JSON object", wire.CodeInvalidParams},
		{"\x16\x03\x01\x02\xfa\xff", "", "not UTF-8", wire.CodeInvalidParams},
		{"{\"id\":\"9\",\"method\":\"a\x00\"}", "9", "NUL", wire.CodeInvalidParams},
		{`{"version":2,"id":"","method":"service.status"}`, "", "id is missing or empty", wire.CodeInvalidParams},
		{`{"version":2,"id":"` + long + `","method":"service.status"}`, "", "id is longer", wire.CodeInvalidParams},
		{`{"version":2,"id":{},"method":"service.status"}`, "", "id must be a string", wire.CodeInvalidParams},
		{`{"version":2,"id":"3","method":"no.such"}`, "3", "Unsupported daemon method: no.such", wire.CodeUnsupportedMethod},
		{`{"version":9,"id":"4","method":"daemon.negotiate"}`, "4", "Version 9", wire.CodeUnsupportedVersion},
		{`{"version":2,"id":"5","method":"mission.start","params":{"minutes":"x"}}`, "5", "minutes must be a number", wire.CodeInvalidParams},
		{`{"version":2,"id":"6","method":"mission.steer","params":{"id":"m1"}}`, "6", "text is missing or empty", wire.CodeInvalidParams},
		{`{"version":2,"id":"7","method":"mission.pause"}`, "7", "id is missing or empty", wire.CodeInvalidParams},
		{`{"version":2,"id":"8","method":"approval.answer","params":{"id":"a","allow":"yes","digest":"d"}}`, "8", "allow must be true or false", wire.CodeInvalidParams},
		{`{"version":2,"id":"9","method":"watch","params":{"topics":["nope"]}}`, "9", `"nope"`, wire.CodeInvalidParams},
		{`{"version":2,"id":"10","method":"watch","params":{"topics":[]}}`, "10", "topics is missing or empty", wire.CodeInvalidParams},
		{`{"version":2,"id":"11","method":"session.get_messages","params":{"session":"s1","limit":1001}}`, "11", "limit must be between 1 and 1,000, or left out", wire.CodeInvalidParams},
		{`{"version":2,"id":"14","method":"audit.read","params":{"limit":-1}}`, "14", "limit must be between 1 and 1,000, or left out", wire.CodeInvalidParams},
		{`{"version":2,"id":"15","method":"mission.list","params":{"limit":201}}`, "15", "limit must be between 1 and 200, or left out", wire.CodeInvalidParams},
		{`{"version":2,"id":"16","method":"room.messages","params":{"room":"r","limit":201}}`, "16", "limit must be between 1 and 200, or left out", wire.CodeInvalidParams},
		{`{"version":2,"id":"12","method":"mission.stop","params":{"id":"m1","request_key":"` + long + `"}}`, "12", "request_key is longer", wire.CodeInvalidParams},
		{`{"version":2,"id":"13","method":"session.attach","params":{"session":"x1"}}`, "13", "no session", wire.CodeNotFound},
	} {
		p.raw(c.line + "\n")
		l := p.get()
		if l.OK || l.ID != c.id || l.Code != c.code || !strings.Contains(l.Error, c.says) {
			t.Errorf("%.70q: id %q code %s says %q; want id %q code %s and %q", c.line, l.ID, l.Code, l.Error, c.id, c.code, c.says)
		}
		if c.code == wire.CodeUnsupportedVersion && string(l.Details) != `{"supported":[1,2]}` {
			t.Errorf("details %s", l.Details)
		}
	}
	if l := p.call(wire.MethodServiceStatus, nil); !l.OK {
		t.Fatalf("the connection is of no use any more: %s", l.Error)
	}
	if calls := f.calls(); len(calls) != 0 {
		t.Fatalf("bad input did something: %v", calls)
	}
}

func TestOverlongLineEndsTheConnectionAfterAnError(t *testing.T) {
	_, path := serve(t, newFake())
	p := dial(t, path)
	pad := `{"version":2,"id":"77","method":"service.status","params":{"x":"`
	fits := pad + strings.Repeat("y", wire.MaxLine-len(pad)-3) + `"}}`
	p.raw(fits + "\n")
	if l := p.get(); !l.OK {
		t.Fatalf("a line of exactly 1 MiB: %s", l.Error)
	}
	go func() { _, _ = p.nc.Write([]byte(strings.Replace(fits, "yy", "yyy", 1) + "\n")) }()
	l := p.get()
	if l.Code != wire.CodeLimitExceeded || l.ID != "77" {
		t.Fatalf("got %+v", l.Response)
	}
	if _, err := p.read(); err == nil {
		t.Fatal("the connection lives on")
	}
}

func TestNegotiation(t *testing.T) {
	_, path := serve(t, newFake())
	p := dial(t, path)
	for params, want := range map[string]int{`{}`: 2, `{"versions":[1]}`: 1, `{"versions":[1,2,3]}`: 2, `{"versions":[5]}`: 0} {
		p.raw(`{"version":1,"id":"n","method":"daemon.negotiate","params":` + params + "}\n")
		l := p.get()
		var r wire.NegotiateResult
		_ = json.Unmarshal(l.Result, &r)
		if want == 0 {
			if l.Code != wire.CodeUnsupportedVersion {
				t.Errorf("%s: %+v", params, l.Response)
			}
		} else if l.Version != want || r.ProtocolVersion != want || r.Generation != 7 {
			t.Errorf("%s: version %d, %+v", params, l.Version, r)
		}
	}
	p.raw(`{"version":1,"id":"s","method":"service.status"}` + "\n")
	if l := p.get(); !l.OK || l.Version != 1 {
		t.Errorf("a response carries its request's version: %+v", l.Response)
	}
}

func TestMutationsOfOneMissionKeepTheirOrder(t *testing.T) {
	f := newFake()
	gate := make(chan struct{})
	f.gates["m1"] = gate
	_, path := serve(t, f)
	p := dial(t, path)
	for i := range 20 {
		p.send(wire.MethodMissionSteer, wire.SteerParams{ID: "m1", Text: fmt.Sprint(i)})
	}
	if got := <-f.started; got != "steer 0 m1" {
		t.Fatal(got)
	}
	// Another mission doesn't wait for it, nor does a read.
	if l := p.call(wire.MethodMissionStop, wire.MissionParams{ID: "m2"}); !l.OK {
		t.Fatal(l.Error)
	}
	if l := p.call(wire.MethodServiceStatus, nil); !l.OK {
		t.Fatal(l.Error)
	}
	close(gate)
	for i := range 20 {
		if l := p.get(); l.ID != fmt.Sprint(i+1) {
			t.Fatalf("answer %d is for request %s", i, l.ID)
		}
	}
	want := []string{"stop m2"}
	for i := range 20 {
		want = append(want, fmt.Sprintf("steer %d m1", i))
	}
	if got := f.calls(); !slices.Equal(got, want) {
		t.Fatalf("got %v", got)
	}
}

func TestRequestKey(t *testing.T) {
	f := newFake()
	gate := make(chan struct{})
	f.gates["m1"] = gate
	_, path := serve(t, f)
	a, b := dial(t, path), dial(t, path)
	params := wire.MissionParams{ID: "m1", RequestKey: "k"}
	a.send(wire.MethodMissionStop, params)
	<-f.started
	b.send(wire.MethodMissionStop, params) // joins the one in flight
	close(gate)
	first, joined := a.get(), b.get()
	again := b.call(wire.MethodMissionStop, params)
	if !first.OK || !bytes.Equal(first.Result, joined.Result) || !bytes.Equal(first.Result, again.Result) {
		t.Fatalf("%s, %s, %s", first.Result, joined.Result, again.Result)
	}
	if got := f.calls(); len(got) != 1 {
		t.Fatalf("ran %v", got)
	}
	if l := b.call(wire.MethodMissionStop, wire.MissionParams{ID: "m2", RequestKey: "k"}); l.Code != wire.CodeConflict {
		t.Fatalf("the key of another request: %+v", l.Response)
	}
	if l := b.call(wire.MethodMissionPause, params); !l.OK || len(f.calls()) != 2 {
		t.Fatalf("the same key with another method: %+v", l.Response)
	}
}

func TestKeysAreBounded(t *testing.T) {
	k := newKeys()
	do := func(i int, f func() (json.RawMessage, error)) {
		_, _ = k.do(context.Background(), fmt.Sprint(i), nil, f)
	}
	ok := func() (json.RawMessage, error) { return nil, nil }
	do(-1, func() (json.RawMessage, error) {
		for i := range 3 * keptKeys {
			do(i, ok)
		}
		return nil, nil
	})
	if len(k.byKey) != k.order.Len() || k.order.Len() > keptKeys {
		t.Fatalf("%d keys, %d in order", len(k.byKey), k.order.Len())
	}
	if k.byKey["-1"] == nil {
		t.Fatal("the key in flight was evicted")
	}
	do(0, func() (json.RawMessage, error) { return nil, fmt.Errorf("no") })
	if k.byKey["0"] != nil {
		t.Fatal("a refusal was kept")
	}
}

func TestTwoAnswersToOneApproval(t *testing.T) {
	_, path := serve(t, newFake())
	peers := []*peer{dial(t, path), dial(t, path)}
	for i, p := range peers {
		p.call(wire.MethodNegotiate, wire.NegotiateParams{Client: fmt.Sprint("window", i)})
	}
	got := make([]line, 2)
	var wg sync.WaitGroup
	for i, p := range peers {
		wg.Go(func() {
			got[i] = p.call(wire.MethodApprovalAnswer, wire.AnswerParams{ID: "a1", Digest: "d", Allow: true})
		})
	}
	wg.Wait()
	if got[0].OK == got[1].OK {
		t.Fatalf("both or neither won: %+v %+v", got[0].Response, got[1].Response)
	}
	lost, winner := 0, "window1"
	if got[0].OK {
		lost, winner = 1, "window0"
	}
	if l := got[lost]; l.Code != wire.CodeAlreadyAnswered || !strings.Contains(string(l.Details), winner) {
		t.Fatalf("the loser isn't told who won: %s %s", l.Error, l.Details)
	}
}

func TestWorkersDecideNothing(t *testing.T) {
	params := map[string]string{
		wire.MethodWatch:           `{"topics":["missions"]}`,
		wire.MethodUnwatch:         `{"topics":["missions"]}`,
		wire.MethodMissionGet:      `{"id":"m2"}`,
		wire.MethodSessionAttach:   `{"session":"s2"}`,
		wire.MethodSessionDetach:   `{"session":"s2"}`,
		wire.MethodSessionMessages: `{"session":"s2"}`,
	}
	harmless := []string{wire.MethodNegotiate, wire.MethodServiceStatus, wire.MethodUnwatch}
	for how, set := range map[string]func(*fake){
		"from the start": func(f *fake) { f.actor = Actor{Worker: true, Mission: "m1", Why: "descends from a guard"} },
		"found out late": func(f *fake) { f.becomes = &Actor{Worker: true, Mission: "m1", Why: "descends from a guard"} },
	} {
		t.Run(how, func(t *testing.T) {
			f := newFake()
			set(f)
			f.hub.Topic(wire.TopicMissions, func() ([]json.RawMessage, error) { return nil, nil })
			_, path := serve(t, f)
			p := dial(t, path)
			var want []string
			for name, m := range methods {
				if slices.Contains(harmless, name) || m.class == worker || f.becomes != nil && m.class != decide && m.class != probe {
					continue
				}
				raw := params[name]
				if raw == "" {
					raw = `{"id":"m1","digest":"d","text":"t","request_key":"` + name + `"}`
				}
				if l := p.call(name, json.RawMessage(raw)); l.Code != wire.CodeForbiddenForWorkers {
					t.Errorf("%s: %+v", name, l.Response)
				}
				want = append(want, name)
			}
			f.mu.Lock()
			if !slices.Equal(f.refused, want) || len(f.called) != 0 || len(f.approval) != 0 {
				t.Errorf("recorded %v, want %v; did %v", f.refused, want, f.called)
			}
			f.mu.Unlock()
			for name, raw := range map[string]string{
				wire.MethodNegotiate: `{}`, wire.MethodServiceStatus: `{}`,
				wire.MethodMissionGet: `{"id":"m1"}`, wire.MethodSessionAttach: `{"session":"s1"}`,
				wire.MethodWatch: `{"topics":["session:m1"]}`, wire.MethodSessionMessages: `{"session":"m1"}`,
			} {
				if l := p.call(name, json.RawMessage(raw)); !l.OK {
					t.Errorf("its own %s: %s", name, l.Error)
				}
			}
		})
	}
}

func TestEveryMethodOfTheProtocolIsServed(t *testing.T) {
	for _, name := range []string{wire.MethodNegotiate, wire.MethodServiceStatus, wire.MethodServiceStop, wire.MethodServiceCheck,
		wire.MethodWatch, wire.MethodUnwatch, wire.MethodMissionCheck, wire.MethodMissionStart, wire.MethodMissionList,
		wire.MethodMissionGet, wire.MethodMissionSteer, wire.MethodMissionPause, wire.MethodMissionResume, wire.MethodMissionStop,
		wire.MethodMissionRecover, wire.MethodMissionCancel, wire.MethodMissionChanges, wire.MethodMissionWorktree, wire.MethodApprovalList, wire.MethodApprovalGet, wire.MethodApprovalAnswer,
		wire.MethodRuleList, wire.MethodRuleAdd, wire.MethodRuleEdit, wire.MethodRuleRevoke, wire.MethodSessionAttach,
		wire.MethodSessionDetach, wire.MethodSessionMessages, wire.MethodBlobRead, wire.MethodProviderList, wire.MethodAuditVerify, wire.MethodAuditRead,
		wire.MethodRoomList, wire.MethodRoomMessages, wire.MethodRoomSend, wire.MethodEffectList, wire.MethodEffectSettle,
		wire.MethodBindWorker, wire.MethodVerifyWorker, wire.MethodCheckpoint, wire.MethodBorrow, wire.MethodPrepareEffect,
		wire.MethodCompleteEffect, wire.MethodExecuteTool} {
		if _, ok := methods[name]; !ok {
			t.Errorf("%s is not served", name)
		}
	}
}

// A fenced service says why with everything that would change something, and
// lets itself be stopped.
func TestFencedServiceOnlyStops(t *testing.T) {
	f := newFake()
	_, path := serve(t, f)
	p := dial(t, path)
	if l := p.call(wire.MethodMissionPause, wire.MissionParams{ID: "m1"}); !l.OK {
		t.Fatal(l.Error)
	}
	f.fenced.Store(wire.Errorf(wire.CodeUnavailable, "the state is another's"))
	called := func() int { f.mu.Lock(); defer f.mu.Unlock(); return len(f.called) }
	was := called()
	for name, m := range methods {
		if m.class != decide || name == wire.MethodServiceStop {
			continue
		}
		if l := p.call(name, json.RawMessage(`{"id":"m1","digest":"d","text":"t"}`)); l.Code != wire.CodeUnavailable || l.Error != "the state is another's" {
			t.Errorf("%s: %+v", name, l.Response)
		}
	}
	if called() != was {
		t.Errorf("something was changed: %v", f.called[was:])
	}
	if l := p.call(wire.MethodServiceStatus, nil); !l.OK {
		t.Error(l.Error)
	}
	if l := p.call(wire.MethodServiceStop, nil); !l.OK {
		t.Error(l.Error)
	}
}

func TestInternalErrorsStayInside(t *testing.T) {
	f := newFake()
	var logged syncBuffer
	_, path := serve(t, f, func(s *Server) { s.log = slog.New(slog.NewTextHandler(&logged, nil)) })
	p := dial(t, path)
	for method, inLog := range map[string]string{wire.MethodServiceCheck: "/secret/path", wire.MethodAuditVerify: "fake_test.go"} {
		l := p.call(method, nil)
		var d struct{ Reference string }
		_ = json.Unmarshal(l.Details, &d)
		if l.Code != wire.CodeInternal || len(d.Reference) != 8 || strings.Contains(l.Error, "secret") || strings.Contains(l.Error, "bug") {
			t.Errorf("%s: %+v", method, l.Response)
		}
		if log := logged.String(); !strings.Contains(log, d.Reference) || !strings.Contains(log, inLog) {
			t.Errorf("%s: the log says %s", method, log)
		}
	}
	if l := p.call(wire.MethodServiceStatus, nil); !l.OK {
		t.Fatal("a panic ended the connection")
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *syncBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

func TestACloseCancelsReadsButNotMutations(t *testing.T) {
	f := newFake()
	gate := make(chan struct{})
	f.gates["m1"] = gate
	s, path := serve(t, f)
	p := dial(t, path)
	p.send(wire.MethodMissionStop, wire.MissionParams{ID: "m1"})
	if got := <-f.started; got != "stop m1" {
		t.Fatal(got)
	}
	p.send(wire.MethodMissionPause, wire.MissionParams{ID: "m1"}) // waits in its lane
	p.send(wire.MethodProviderList, nil)
	if got := <-f.started; got != "provider.list" {
		t.Fatal(got)
	}
	_ = p.nc.Close()
	if got := <-f.started; got != "cancelled" {
		t.Fatal(got)
	}
	close(gate)
	s.Close(wire.ClosingShutdown) // waits for all
	if got := f.calls(); !slices.Equal(got, []string{"stop m1"}) {
		t.Fatalf("after the client went: %v", got)
	}
}

func TestClosingIsAnnouncedAndMutationsAreAnswered(t *testing.T) {
	f := newFake()
	gate := make(chan struct{})
	f.gates["m1"] = gate
	s, path := serve(t, f)
	p, q := dial(t, path), dial(t, path)
	q.call(wire.MethodServiceStatus, nil)
	id := p.send(wire.MethodMissionStop, wire.MissionParams{ID: "m1"})
	<-f.started
	closed := make(chan struct{})
	go func() { s.Close(wire.ClosingUpdate); close(closed) }()
	for _, peer := range []*peer{p, q} {
		l := peer.get()
		var d wire.ServiceClosing
		_ = json.Unmarshal(l.Data, &d)
		if l.Event != wire.EvServiceClosing || d.Reason != wire.ClosingUpdate {
			t.Fatalf("got %+v", l)
		}
	}
	if l := q.call(wire.MethodMissionStop, wire.MissionParams{ID: "m2"}); l.Code != wire.CodeShuttingDown {
		t.Fatalf("a mutation while closing: %+v", l.Response)
	}
	// What a worker's bridge repeats with the successor, it is told so.
	if l := q.call(wire.MethodCompleteEffect, nil); l.Code != wire.CodeStaleGeneration || !strings.HasPrefix(l.Error, "Stale daemon generation") {
		t.Fatalf("a completion while closing: %+v", l.Response)
	}
	close(gate)
	if l := p.get(); l.ID != id || !l.OK {
		t.Fatalf("the mutation that ran: %+v", l.Response)
	}
	for _, peer := range []*peer{p, q} {
		if _, err := peer.read(); err != io.EOF {
			t.Fatalf("want the end, got %v", err)
		}
	}
	<-closed
}

func TestTooManyClientsAndRequests(t *testing.T) {
	f := newFake()
	gate := make(chan struct{})
	f.gates["m1"] = gate
	_, path := serve(t, f, func(s *Server) { s.max = 1 })
	p := dial(t, path)
	for range maxInFlight {
		p.send(wire.MethodMissionStop, wire.MissionParams{ID: "m1"})
	}
	if l := p.call(wire.MethodServiceStatus, nil); l.Code != wire.CodeLimitExceeded {
		t.Fatalf("request %d: %+v", maxInFlight+1, l.Response)
	}
	if l := dial(t, path).get(); l.Code != wire.CodeLimitExceeded {
		t.Fatalf("client 2: %+v", l.Response)
	}
	close(gate)
	for range maxInFlight {
		if l := p.get(); !l.OK {
			t.Fatal(l.Error)
		}
	}
	// A place is free again when its answer was written, which the writer may
	// find out after its client did.
	l := p.call(wire.MethodServiceStatus, nil)
	for l.Code == wire.CodeLimitExceeded {
		l = p.call(wire.MethodServiceStatus, nil)
	}
	if !l.OK {
		t.Fatal(l.Error)
	}
}

// pipes is a listener whose connections have no peer that the kernel knows.
type pipes struct{ c chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p.c
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

func TestUnknownPeerIsRefused(t *testing.T) {
	f := newFake()
	l := pipes{make(chan net.Conn, 1)}
	s := New(l, f, f.hub, Options{Logger: slog.New(slog.DiscardHandler)})
	done := make(chan error)
	go func() { done <- s.Serve(context.Background()) }()
	ours, theirs := net.Pipe()
	l.c <- theirs
	p := &peer{t: t, nc: ours, lines: wire.NewLineReader(ours)}
	if got := p.get(); got.OK || got.Code != wire.CodeUnavailable {
		t.Fatalf("got %+v", got.Response)
	}
	if _, err := p.read(); err != io.EOF {
		t.Fatalf("want the end, got %v", err)
	}
	close(l.c)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestListsAndPagesFitALine(t *testing.T) {
	f := newFake()
	f.append("s1", 30, 60<<10)
	_, path := serve(t, f)
	p := dial(t, path)
	var list wire.MissionListResult
	must(t, json.Unmarshal(p.call(wire.MethodMissionList, nil).Result, &list))
	if len(list.Missions) == 0 || len(list.Missions) == 200 || !list.More {
		t.Fatalf("%d missions, more %v", len(list.Missions), list.More)
	}
	var seq uint64
	var after *wire.Cursor
	for pages := 0; ; pages++ {
		var r wire.MessagesResult
		l := p.call(wire.MethodSessionMessages, wire.MessagesParams{Session: "m1", After: after})
		must(t, json.Unmarshal(l.Result, &r))
		if len(l.Result) > 900<<10+1024 {
			t.Fatalf("a page of %d bytes", len(l.Result))
		}
		for _, e := range r.Entries {
			if seq++; e.Seq != seq {
				t.Fatalf("entry %d, want %d", e.Seq, seq)
			}
		}
		after = r.Next
		if !r.More {
			if seq != 30 || pages != 2 {
				t.Fatalf("%d entries on %d pages", seq, pages+1)
			}
			return
		}
	}
}

// A worker that takes every place it can get takes none of another mission's,
// and none of those who may only read.
func TestAMissionLeavesPlacesToOthers(t *testing.T) {
	f := newFake()
	_, path := serve(t, f)
	for i, a := range []Actor{{Worker: true, Mission: "m1"}, {Worker: true, Mission: "m2"}, {Worker: true}, {Doubtful: true}} {
		f.next(a)
		for range maxOfOne {
			if l := dial(t, path).call(wire.MethodNegotiate, nil); !l.OK {
				t.Fatalf("case %d: %+v", i, l.Response)
			}
		}
		if l := dial(t, path).get(); l.Code != wire.CodeLimitExceeded {
			t.Errorf("case %d, one more: %+v", i, l.Response)
		}
	}
}

// A worker that takes every place there is takes none of a person's.
func TestWorkersTakeNoPlaceOfPersons(t *testing.T) {
	f := newFake()
	f.actor = Actor{Worker: true, Mission: "m1", Why: "descends from a guard"}
	const places = 3
	_, path := serve(t, f, func(s *Server) { s.max = places })
	for range places {
		if l := dial(t, path).call(wire.MethodNegotiate, nil); !l.OK {
			t.Fatalf("%+v", l.Response)
		}
	}
	if l := dial(t, path).get(); l.Code != wire.CodeLimitExceeded {
		t.Errorf("one worker more: %+v", l.Response)
	}
	f.next(Actor{})
	for range places {
		if l := dial(t, path).call(wire.MethodMissionStop, json.RawMessage(`{"id":"m1"}`)); !l.OK {
			t.Fatalf("a person: %+v", l.Response)
		}
	}
}
