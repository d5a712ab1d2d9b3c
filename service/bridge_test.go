//go:build unix

package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/effects"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

// asks and then waits for news, in every turn.
const asksAndWaits = "demo:command true\ndemo:wait"

// must is for calls that have to work.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// refused checks a refusal: its code, and what its message says.
func refused(t *testing.T, err error, code wire.Code, says string) {
	t.Helper()
	if wire.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v (%s), want %s with %q", err, wire.CodeOf(err), code, says)
	}
}

// over checks a refusal of a run that is over: clients match on the words that
// it doesn't have.
func over(t *testing.T, err error) {
	t.Helper()
	refused(t, err, wire.CodeStaleGeneration, "Stale execution")
	if err == nil {
		return
	}
	for _, word := range []string{"daemon", "supervisor", "handoff"} {
		if strings.Contains(strings.ToLower(err.Error()), word) {
			t.Errorf("%q names a %s, so clients would try again", err, word)
		}
	}
}

func (h *house) call(r supervisor.Record, id, tool, input string) wire.ToolParams {
	return wire.ToolParams{Coordinates: at(r), Generation: h.s.id.Generation, RequestID: wire.MCPRequestID(id), Tool: tool, Input: json.RawMessage(input)}
}

func (h *house) prepare(r supervisor.Record, by int, id, tool, input string) (wire.PrepareResult, error) {
	return h.s.PrepareEffect(context.Background(), actor(r, by), wire.PrepareParams{ToolParams: h.call(r, id, tool, input), Mutation: true})
}

func (h *house) execute(r supervisor.Record, id, tool, input string) (wire.ToolResult, error) {
	return h.s.ExecuteTool(context.Background(), actor(r, 1), h.call(r, id, tool, input))
}

func (h *house) finish(r supervisor.Record, by int, effect, why string) (wire.CompleteResult, error) {
	p := wire.CompleteParams{Coordinates: at(r), Generation: h.s.id.Generation, Effect: effect, Error: why}
	if why == "" {
		p.Result = json.RawMessage(`{"ok":true}`)
	}
	return h.s.CompleteEffect(context.Background(), actor(r, by), p)
}

func (h *house) messages(room string) []wire.RoomMessage {
	h.t.Helper()
	out := must(h.s.RoomMessages(context.Background(), wire.RoomMessagesParams{Room: room, Limit: 200}))(h.t)
	return out.Messages
}

func (h *house) effect(id string) effects.Record {
	h.t.Helper()
	var e effects.Record
	if err := h.s.db.View(func(tx *store.Tx) (err error) { e, _, err = effects.Get(tx, id); return }); err != nil {
		h.t.Fatal(err)
	}
	return e
}

func (h *house) send(room, text string) wire.RoomMessage {
	h.t.Helper()
	return must(h.s.RoomSend(context.Background(), server.Actor{Program: "test"}, wire.RoomSendParams{Room: room, Text: text}))(h.t).Message
}

// A session is borrowed, bound and verified for exactly one run, and outlives
// the service as far as it may.
func TestSession(t *testing.T) {
	h, ctx := newHouse(t), context.Background()
	r := h.start(h.checkout("a"), asksAndWaits, "")
	r = h.asking(r.ID, 1)
	who := actor(r, 1)
	c := at(r)
	c.Turn = ""
	borrowed := wire.BorrowParams{Coordinates: c, Room: r.Bridge.Room, Session: r.Bridge.Session, Generation: h.s.id.Generation, APIURL: wire.LocalOrigin + "/api"}
	lent := must(h.s.BorrowCredential(ctx, who, borrowed))(t)
	if lent.Status != wire.BorrowAvailable || len(lent.Credential) != 43 {
		t.Fatalf("lent %+v", lent)
	}
	if again := must(h.s.BorrowCredential(ctx, who, borrowed))(t); again != lent {
		t.Error("another token was lent for the same session")
	}
	p := wire.BindParams{Coordinates: c, WorkerSession: wire.WorkerSession{Room: r.Bridge.Room, Session: r.Bridge.Session, Token: lent.Credential, APIURL: wire.LocalOrigin}}
	_, err := h.s.VerifyWorker(ctx, who, p)
	refused(t, err, wire.CodeCredentialStale, "not current") // lent is not bound
	if got := must(h.s.BindWorker(ctx, who, p))(t); got != (wire.BindResult{Bound: true, Entry: r.ID, Session: r.Bridge.Session}) {
		t.Errorf("bound %+v", got)
	}
	must(h.s.BindWorker(ctx, who, p))(t)
	must(h.s.VerifyWorker(ctx, who, p))(t)
	for name, change := range map[string]func(*wire.BindParams){
		"room":    func(p *wire.BindParams) { p.Room = "r-other" },
		"session": func(p *wire.BindParams) { p.Session = "s-other" },
		"token":   func(p *wire.BindParams) { p.Token += "x" },
		"origin":  func(p *wire.BindParams) { p.APIURL = "http://127.0.0.1:2" },
	} {
		q := p
		change(&q)
		if _, err := h.s.VerifyWorker(ctx, who, q); wire.CodeOf(err) != wire.CodeCredentialStale {
			t.Errorf("another %s is verified: %v", name, err)
		}
		if _, err := h.s.BindWorker(ctx, who, q); err == nil {
			t.Errorf("another %s replaced a live binding", name)
		}
	}
	q := p
	q.Execution = "x-old"
	_, err = h.s.VerifyWorker(ctx, who, q)
	over(t, err)
	_, err = h.s.BindWorker(ctx, who, q)
	over(t, err)
	b := borrowed
	b.Generation--
	_, err = h.s.BorrowCredential(ctx, who, b)
	refused(t, err, wire.CodeStaleGeneration, "Stale daemon generation")
	for _, change := range []func(*wire.BorrowParams){
		func(p *wire.BorrowParams) { p.Room = "r-other" }, func(p *wire.BorrowParams) { p.Session = "s-other" }, func(p *wire.BorrowParams) { p.APIURL = "https://example.org" },
	} {
		b := borrowed
		change(&b)
		if got := must(h.s.BorrowCredential(ctx, who, b))(t); got != (wire.BorrowResult{Status: wire.BorrowStale}) {
			t.Errorf("lent %+v for something else", got)
		}
	}
	var kept string
	if err := h.s.db.View(func(tx *store.Tx) error { kept = string(tx.Get(bindingBucket, []byte(r.ID))); return nil }); err != nil || strings.Contains(kept, lent.Credential) || kept == "" {
		t.Errorf("the journal has %q, %v", kept, err)
	}

	h.restart()
	must(h.s.VerifyWorker(ctx, who, p))(t) // by its hash
	must(h.s.BindWorker(ctx, who, p))(t)   // and in memory again
	borrowed.Generation = h.s.id.Generation
	if got := must(h.s.BorrowCredential(ctx, who, borrowed))(t); got != lent {
		t.Errorf("lent %+v after the token was shown again", got)
	}
	h.restart()
	borrowed.Generation = h.s.id.Generation
	next := must(h.s.BorrowCredential(ctx, who, borrowed))(t) // nobody has shown it
	if next.Status != wire.BorrowAvailable || next.Credential == lent.Credential {
		t.Fatalf("lent %+v", next)
	}
	_, err = h.s.VerifyWorker(ctx, who, p)
	refused(t, err, wire.CodeCredentialStale, "")
	_, err = h.s.BindWorker(ctx, who, p)
	refused(t, err, wire.CodeCredentialStale, "borrow")
	p.Token = next.Credential
	must(h.s.BindWorker(ctx, who, p))(t)

	m := h.send(r.ID, "Read this.")
	cp := wire.CheckpointParams{Coordinates: c, Session: r.Bridge.Session, Cursor: m.ID}
	for _, bad := range []string{"1", "msg_01", "msg_9"} {
		q := cp
		q.Cursor = bad
		_, err := h.s.CheckpointWorker(ctx, who, q)
		refused(t, err, wire.CodeInvalidParams, "room_cursor")
	}
	if got := must(h.s.CheckpointWorker(ctx, who, cp))(t); got.Cursor != "" {
		t.Errorf("a message that nobody told the agent counts as read: %+v", got)
	}
	must(h.execute(r, "u-1", wire.MCPGetUpdates, `{}`))(t)
	h.restart()
	for range 2 {
		if got := must(h.s.CheckpointWorker(ctx, who, cp))(t); got.Cursor != "msg_1" {
			t.Errorf("the cursor is %+v", got)
		}
	}
	q2 := cp
	q2.Session = "s-other"
	_, err = h.s.CheckpointWorker(ctx, who, q2)
	refused(t, err, wire.CodeCredentialStale, "session")

	must(h.s.sup.Stop(ctx, r.ID))(t)
	_, err = h.s.VerifyWorker(ctx, who, p)
	over(t, err)
	if _, ok := h.s.bindings.get(r.ID); ok {
		t.Error("the session of a mission that has ended is kept")
	}
}

// A bridge that brings a session of another service keeps its token in memory
// for lending, and its own tools are its own.
func TestForeignSession(t *testing.T) {
	h, ctx := newHouse(t), context.Background()
	r := h.asking(h.start(h.checkout("a"), asksAndWaits, "").ID, 1)
	who, c := actor(r, 1), at(r)
	b := wire.BorrowParams{Coordinates: c, Room: r.Bridge.Room, Session: "theirs", Generation: h.s.id.Generation, APIURL: "https://rooms.example"}
	if got := must(h.s.BorrowCredential(ctx, who, b))(t); got.Status != wire.BorrowDeferred {
		t.Errorf("lent %+v before anything was bound", got)
	}
	p := wire.BindParams{Coordinates: c, WorkerSession: wire.WorkerSession{Room: r.Bridge.Room, Session: "theirs", Token: "secret", APIURL: "https://ROOMS.example:443/v1"}}
	must(h.s.BindWorker(ctx, who, p))(t)
	if got := must(h.s.BorrowCredential(ctx, who, b))(t); got.Credential != "secret" {
		t.Errorf("lent %+v", got)
	}
	cp := wire.CheckpointParams{Coordinates: c, Session: "theirs", Cursor: "msg_40"} // of their room
	for _, cursor := range []string{"msg_40", "msg_9"} {
		cp.Cursor = cursor
		if got := must(h.s.CheckpointWorker(ctx, who, cp))(t); got.Cursor != "msg_40" {
			t.Errorf("the cursor is %+v", got)
		}
	}
	// Its send_message is not ours, so nobody here knows how it ended.
	e := must(h.prepare(r, 1, "1", wire.MCPSendMessage, `{"channel":"x"}`))(t)
	must(h.execute(r, "2", wire.MCPSendMessage, `{"text":"Ours, beside it."}`))(t)
	h.restart()
	b.Generation = h.s.id.Generation
	must(h.s.VerifyWorker(ctx, who, p))(t)
	if got := must(h.s.BorrowCredential(ctx, who, b))(t); got != (wire.BorrowResult{Status: wire.BorrowDeferred}) {
		t.Errorf("lent %+v, and nothing is in memory", got)
	}
	must(h.s.BindWorker(ctx, who, p))(t)
	if got := must(h.s.BorrowCredential(ctx, who, b))(t); got.Credential != "secret" {
		t.Errorf("lent %+v after it was bound again", got)
	}
	h.goOn(r.ID)
	h.until(r.ID, "end of the turn", func(r supervisor.Record) bool { return r.Turns[0].Outcome != nil })
	if got := h.effect(e.Effect); got.State != effects.Uncertain {
		t.Errorf("an effect of another's bridge is %s after its turn", got.State)
	}
}

// Effects are prepared, executed by one process, completed in any generation,
// and uncertain when nobody is left who could know.
func TestEffects(t *testing.T) {
	h, ctx := newHouse(t), context.Background()
	r := h.asking(h.start(h.checkout("a"), asksAndWaits, "").ID, 1)
	first := must(h.prepare(r, 1, "1", "deploy", `{"to":"prod","n":1}`))(t)
	if first.State != wire.EffectPrepared || first.Action != wire.ActionExecute || first.Effect == "" || first.Room != r.Bridge.Room {
		t.Fatalf("prepared %+v", first)
	}
	again := must(h.prepare(r, 1, "1", "deploy", `{ "n":1, "to":"prod" }`))(t)
	if again.Effect != first.Effect || again.State != wire.EffectPrepared {
		t.Errorf("the same process gets %+v", again)
	}
	_, err := h.prepare(r, 1, "1", "deploy", `{"to":"test"}`)
	refused(t, err, wire.CodeConflict, "another tool, input")
	old := h.s.id.Generation
	h.restart()
	stale := wire.CompleteParams{Coordinates: at(r), Generation: old, Effect: first.Effect}
	_, err = h.s.CompleteEffect(ctx, actor(r, 1), stale)
	refused(t, err, wire.CodeStaleGeneration, "Stale daemon generation")
	for range 2 {
		if got := must(h.finish(r, 1, first.Effect, ""))(t); got.State != wire.EffectCompleted || got.Room != r.Bridge.Room {
			t.Errorf("completed %+v", got)
		}
	}
	_, err = h.finish(r, 1, first.Effect, "it failed")
	refused(t, err, wire.CodeConflict, "the other way")
	if got := must(h.prepare(r, 2, "1", "deploy", `{"to":"prod","n":1}`))(t); got.State != wire.EffectCompleted || string(got.Result) != `{"ok":true}` {
		t.Errorf("a repeat gets %+v", got)
	}
	failed := must(h.prepare(r, 1, "2", "deploy", `{}`))(t)
	must(h.finish(r, 1, failed.Effect, "no such host"))(t)
	_, err = h.prepare(r, 1, "2", "deploy", `{}`)
	refused(t, err, wire.CodeConflict, "no such host")

	dead := must(h.prepare(r, 1, "3", "mail", `{}`))(t)
	if got := must(h.prepare(r, 2, "3", "mail", `{}`))(t); got.State != wire.EffectUncertain || got.Effect != dead.Effect || got.Error == "" {
		t.Errorf("another process gets %+v", got)
	}
	lost := must(h.prepare(r, 1, "4", "mail", `{"n":4}`))(t)
	p := wire.PrepareParams{ToolParams: h.call(r, "5", "mail", `{}`), Mutation: true}
	for _, change := range []func(*wire.Coordinates){
		func(c *wire.Coordinates) { c.Attempt = "a-old" }, func(c *wire.Coordinates) { c.Execution = "x-old" }, func(c *wire.Coordinates) { c.Turn = "t-old" },
	} {
		q := p
		change(&q.Coordinates)
		_, err := h.s.PrepareEffect(ctx, actor(r, 1), q)
		over(t, err)
	}
	p.Turn = "" // a bridge that lives longer than a turn
	if got := must(h.s.PrepareEffect(ctx, actor(r, 1), p))(t); h.effect(got.Effect).Turn != r.Turns[0].ID {
		t.Error("it is not of the turn in flight")
	}
	list := must(h.s.EffectList(ctx, wire.EffectListParams{Mission: r.ID}))(t)
	if len(list.Effects) != 1 || list.Effects[0].ID != dead.Effect {
		t.Errorf("what needs a person is %+v", list.Effects)
	}

	h.goOn(r.ID)
	r = h.until(r.ID, "end of the turn", func(r supervisor.Record) bool { return r.Phase == mission.Waiting })
	_, err = h.s.PrepareEffect(ctx, actor(r, 1), p)
	over(t, err)
	if got := h.effect(lost.Effect); got.State != effects.Uncertain {
		t.Fatalf("an effect that its turn left executing is %s", got.State)
	}
	settle := wire.EffectSettleParams{ID: lost.Effect, Revision: 1, Outcome: wire.EffectHappened}
	_, err = h.s.EffectSettle(ctx, server.Actor{Program: "test"}, settle)
	refused(t, err, wire.CodeConflict, "changed since")
	settle.Revision = h.effect(lost.Effect).Revision
	if got := must(h.s.EffectSettle(ctx, server.Actor{Program: "test"}, settle))(t); got.Effect.State != wire.EffectSettled || got.Effect.Settled != wire.EffectHappened {
		t.Errorf("settled %+v", got.Effect)
	}
	_, err = h.s.EffectSettle(ctx, server.Actor{Program: "test"}, settle)
	refused(t, err, wire.CodeAlreadyAnswered, "It happened")

	// The next turn's prompt tells of both, once that turn has succeeded.
	must(h.s.sup.Steer(ctx, r.ID, "Go on."))(t)
	r = h.asking(r.ID, 2)
	if told := r.Turns[1].Told; !slices.ContainsFunc(told, func(x supervisor.Told) bool { return x.ID == dead.Effect }) || !slices.ContainsFunc(told, func(x supervisor.Told) bool { return x.ID == lost.Effect }) {
		t.Errorf("the prompt tells of %+v", told)
	}
	prompt := h.prompt(r, 2)
	if !strings.Contains(prompt, "## Not known\n") || !strings.Contains(prompt, `mail {"n":4}: It happened`) {
		t.Errorf("the prompt does not say what is uncertain and what was settled:\n%s", prompt)
	}
	h.goOn(r.ID)
	h.until(r.ID, "end of the turn", func(r supervisor.Record) bool { return r.Phase == mission.Waiting || r.Phase.Terminal() })
	if err := h.s.db.View(func(tx *store.Tx) error {
		untold, err := effects.Untold(tx, r.ID, 10)
		if len(untold) != 0 {
			t.Errorf("still to be told: %+v", untold)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// A turn that ends between the write of an effect and the second look at it: the
// bridge is refused, so what this very call made did not happen. What an earlier
// call made, whose answer may have been heard, stays uncertain.
func TestTurnEndsWhileAnEffectIsWritten(t *testing.T) {
	h, ctx := newHouse(t), context.Background()
	r := h.asking(h.start(h.checkout("a"), asksAndWaits, "").ID, 1)
	type written struct {
		p    wire.PrepareParams
		e    effects.Record
		made bool
	}
	write := func(id, turn string) written {
		t.Helper()
		p := wire.PrepareParams{ToolParams: h.call(r, id, "mail", `{}`), Mutation: true}
		p.Turn = turn
		e, _, made, err := h.s.journal(ctx, actor(r, 1), p)
		if err != nil || e.State != effects.Executing {
			t.Fatalf("%+v, %v", e, err)
		}
		return written{p, e, made}
	}
	turn := r.Turns[0].ID
	first, unnamed, heard := write("1", turn), write("2", ""), write("3", turn)
	if err := h.s.lookAgain(ctx, heard.p.Coordinates, heard.e, heard.made); err != nil {
		t.Fatal(err)
	}
	again := write("3", turn)
	look := func(w written, made bool, want effects.State, known string) {
		t.Helper()
		over(t, h.s.lookAgain(ctx, w.p.Coordinates, w.e, w.made))
		if got := h.effect(w.e.ID); w.made != made || got.State != want || !strings.Contains(got.Known(), known) {
			t.Errorf("made by this call: %v; it is %s: %s", w.made, got.State, got.Known())
		}
	}
	const refused = "It did not happen: its turn"
	h.goOn(r.ID)
	h.until(r.ID, "end of the turn", func(r supervisor.Record) bool { return r.Phase == mission.Waiting })
	look(first, true, effects.Failed, refused)
	look(again, false, effects.Uncertain, "its turn ended")
	must(h.s.sup.Steer(ctx, r.ID, "Go on."))(t)
	h.asking(r.ID, 2)
	look(unnamed, true, effects.Failed, refused) // though another turn is in flight
	last := write("5", "")
	h.ahead.Add(int64(time.Hour)) // and the mission's time is over
	look(last, true, effects.Failed, refused)
}

// Calls for the same effect are answered one after another, so that the first
// knows whether another was told to go on.
func TestPreparesOfOneEffectWait(t *testing.T) {
	h, ctx := newHouse(t), context.Background()
	r := h.asking(h.start(h.checkout("a"), asksAndWaits, "").ID, 1)
	key := keyOf(h.call(r, "1", "mail", `{}`), "")
	leave, err := h.s.calls.alone(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	asking, leaveLine := context.WithCancel(ctx)
	ask := func(ctx context.Context) {
		go func() {
			_, err := h.s.PrepareEffect(ctx, actor(r, 1), wire.PrepareParams{ToolParams: h.call(r, "1", "mail", `{}`), Mutation: true})
			answered <- err
		}()
		for {
			h.s.calls.mu.Lock()
			waits := h.s.calls.lines[key].calls == 2
			h.s.calls.mu.Unlock()
			select {
			case err := <-answered:
				t.Fatalf("it does not wait: %v", err)
			default:
			}
			if waits {
				return
			}
			runtime.Gosched()
		}
	}
	ask(asking)
	must(h.prepare(r, 1, "2", "mail", `{}`))(t) // another effect
	leaveLine()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("who left is told %v", err)
	}
	ask(ctx)
	leave()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if n := len(h.s.calls.lines); n != 0 {
		t.Errorf("%d lines are left", n)
	}
}

// prompt is what the agent was told in a turn.
func (h *house) prompt(r supervisor.Record, turn int) (out string) {
	h.t.Helper()
	_, err := h.s.History(context.Background(), r.Session, nil, func(e wire.Entry) bool {
		var s wire.TurnStarted
		if e.Kind == wire.KindTurnStarted && json.Unmarshal(e.Data, &s) == nil && s.Turn == r.Turns[turn-1].ID {
			out = s.Prompt
		}
		return true
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// A recovered mission is a new run in the same room. What the lost one was doing
// is uncertain, and a process of it that is left speaks for nobody.
func TestRecoveryIsANewRun(t *testing.T) {
	h, ctx := newHouse(t), context.Background()
	r := h.asking(h.start(h.checkout("a"), asksAndWaits, "").ID, 1)
	e := must(h.prepare(r, 1, "1", "deploy", `{}`))(t)
	own := must(h.prepare(r, 1, "2", wire.MCPSendMessage, `{"text":"Soon."}`))(t)
	b := wire.BorrowParams{Coordinates: at(r), Room: r.Bridge.Room, Session: r.Bridge.Session, Generation: h.s.id.Generation, APIURL: wire.LocalOrigin}
	token := must(h.s.BorrowCredential(ctx, actor(r, 1), b))(t).Credential
	rec, err := guard.ReadRecord(h.s.path("attempts", r.Attempt))
	if err != nil {
		t.Fatal(err)
	}
	if err := proc.ID(rec.Process).Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	lost := h.until(r.ID, "loss of the guard", func(r supervisor.Record) bool { return r.Phase == mission.Blocked && r.Guard == mission.GuardGone })
	if got := h.effect(e.Effect); got.State != effects.Uncertain {
		t.Errorf("what the lost worker was doing is %s", got.State)
	}
	if got := h.effect(own.Effect); got.State != effects.Failed {
		t.Errorf("what the service was to do for it is %s", got.State)
	}
	if len(h.messages(r.ID)) != 0 {
		t.Error("it was done all the same")
	}
	_, err = h.finish(r, 2, e.Effect, "")
	refused(t, err, wire.CodeConflict, "nobody knows") // only who did it could know
	_, ask, err := h.s.sup.Recover(ctx, r.ID, lost.Ref(), r.Terms, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.answer(ask, approval.Answer{Allow: true})
	now := h.asking(r.ID, 2)
	if now.Bridge.Execution == r.Bridge.Execution || now.Bridge.Session == r.Bridge.Session || now.Bridge.Room != r.Bridge.Room {
		t.Errorf("the run is %+v, it was %+v", now.Bridge, r.Bridge)
	}
	p := wire.BindParams{Coordinates: at(r), WorkerSession: wire.WorkerSession{Room: r.Bridge.Room, Session: r.Bridge.Session, Token: token, APIURL: wire.LocalOrigin}}
	_, err = h.s.BindWorker(ctx, actor(r, 1), p)
	over(t, err)
	p.Coordinates, p.Session = at(now), now.Bridge.Session
	_, err = h.s.BindWorker(ctx, actor(r, 1), p)
	refused(t, err, wire.CodeCredentialStale, "borrow")
	_, err = h.finish(r, 1, e.Effect, "")
	over(t, err)
	if !strings.Contains(h.prompt(now, len(now.Turns)), "## Not known\n1. deploy {}: It was begun") {
		t.Error("the new worker is not told what is uncertain")
	}
}

// A worker that calls in a loop fills neither the journal nor the audit, which
// nothing shortens; another mission's worker does not feel it, and a moment
// later this one may go on.
func TestWorkerCallsInALoop(t *testing.T) {
	h := newHouse(t)
	r := h.asking(h.start(h.checkout("a"), asksAndWaits, "").ID, 1)
	other := h.asking(h.start(h.checkout("b"), asksAndWaits, "").ID, 1)
	entries := func() uint64 { return must(h.s.db.VerifyAudit(context.Background()))(t).Entries }
	before, began := entries(), time.Now()
	var last error
	for i := range 2000 {
		_, last = h.execute(r, fmt.Sprint("r-", i), wire.MCPGetMission, "{}")
		if last != nil && wire.CodeOf(last) != wire.CodeRateLimited || last != nil && i < burstCalls {
			t.Fatal(last)
		}
	}
	more, may := entries()-before, burstCalls+1+time.Since(began)/callEvery
	if more < burstCalls || more > uint64(may) {
		t.Errorf("the audit has %d entries more, which may be from %d to %d", more, burstCalls, may)
	}
	reads := wire.PrepareParams{ToolParams: h.call(r, "p-1", wire.MCPGetMission, "{}")}
	for range burstCalls {
		if _, last = h.s.PrepareEffect(context.Background(), actor(r, 1), reads); last != nil {
			break
		}
	}
	refused(t, last, wire.CodeRateLimited, "too often")
	if _, err := h.execute(other, "o-1", wire.MCPGetMission, "{}"); err != nil {
		t.Errorf("another mission's worker: %v", err)
	}
	h.ahead.Add(int64(time.Minute))
	if _, err := h.execute(r, "r-later", wire.MCPGetMission, "{}"); err != nil {
		t.Errorf("later: %v", err)
	}
}

// The pace is each mission's own, and repeats itself.
func TestMeter(t *testing.T) {
	var m meter
	now := time.Now()
	for round := range 3 {
		for range burstCalls {
			if err := m.take("a", now); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		refused(t, m.take("a", now), wire.CodeRateLimited, "too often")
		refused(t, m.take("a", now.Add(callEvery-1)), wire.CodeRateLimited, "too often")
		if err := m.take("b", now); err != nil {
			t.Error(err)
		}
		now = now.Add(callEvery)
		if err := m.take("a", now); err != nil {
			t.Error(err)
		}
		refused(t, m.take("a", now), wire.CodeRateLimited, "too often")
		now = now.Add(burstCalls * callEvery)
	}
	if err := m.take("c", now); err != nil || len(m.full) != 1 {
		t.Errorf("%v; it remembers %d missions", err, len(m.full))
	}
}
