//go:build unix

package service

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/effects"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

// askedFor waits until a person is asked for a call of a tool.
func (h *house) askedFor(r supervisor.Record, id string) approvals.Record {
	h.t.Helper()
	limit := time.After(4 * time.Minute)
	for {
		next := h.s.pulse.next()
		var found approvals.Record
		if err := h.s.db.View(func(tx *store.Tx) error {
			waiting, err := approvals.Pending(tx, r.ID)
			for _, a := range waiting {
				if e, _, _ := effects.Get(tx, a.Effect); e.Request == id {
					found = a
				}
			}
			return err
		}); err != nil {
			h.t.Fatal(err)
		}
		if found.ID != "" {
			return found
		}
		select {
		case <-next:
		case <-limit:
			h.t.Fatal("nobody is asked")
		}
	}
}

// approval reads one.
func (h *house) approval(id string) (a approvals.Record) {
	h.t.Helper()
	if err := h.s.db.View(func(tx *store.Tx) (err error) { a, _, err = approvals.Get(tx, id); return }); err != nil {
		h.t.Fatal(err)
	}
	return a
}

// A question of a worker is an approval like that of any agent: the same kind, a
// digest over all that is shown, through a restart, and answered by a person alone.
func TestQuestion(t *testing.T) {
	h := newHouse(t)
	r := h.asking(h.start(h.checkout("a"), asksAndWaits, "").ID, 1)
	const input = `{"question":"Which colour?","options":["red","blue"],"multiple":true}`
	var wg sync.WaitGroup
	ask := func(id string, want, refusal string) {
		wg.Go(func() {
			got, err := h.execute(r, id, wire.MCPAskQuestion, input)
			if refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal)) || refusal == "" && (err != nil || string(got.Result) != want) {
				t.Errorf("%s: it gave %s, %v", id, got.Result, err)
			}
		})
	}
	ctx, leave := context.WithCancel(context.Background())
	wg.Go(func() { _, _ = h.s.ExecuteTool(ctx, actor(r, 1), h.call(r, "1", wire.MCPAskQuestion, input)) })
	before := h.askedFor(r, "1")
	leave()
	wg.Wait()
	h.restart()
	a := h.askedFor(r, "1")
	var subject approval.Subject
	if err := json.Unmarshal(a.Subject, &subject); err != nil {
		t.Fatal(err)
	}
	q := subject.Question
	if a.ID != before.ID || a.Kind != approval.QuestionAsked || q == nil || q.Text != "Which colour?" || strings.Join(q.Options, " ") != "red blue" || !q.Multi {
		t.Errorf("asked %+v, %+v", a, q)
	}
	digest, err := approval.Digest(approval.Envelope{ID: a.ID, Kind: a.Kind, Mission: r.ID, Attempt: a.Attempt, Turn: a.TurnNo, Subject: subject})
	if err != nil || digest != a.Digest {
		t.Errorf("the digest is %s, %v, not %s", digest, err, a.Digest)
	}
	// The worker can't answer: what it completes without one is refused.
	_, err = h.finish(r, 1, a.Effect, "")
	refused(t, err, wire.CodeConflict, "executed")
	if a := h.approval(a.ID); a.State != approval.Pending {
		t.Fatalf("after that it is %s", a.State)
	}
	ask("1", `{"answer":"red\nblue","answered":true,"reason":""}`, "")
	if _, err := h.s.sup.Answer(t.Context(), a.ID, a.Digest, approvals.Answer{Answer: approval.Answer{Allow: true}, Text: "red\nblue", Who: approvals.Who{Via: "program", Program: "test"}}); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	ask("1", `{"answer":"red\nblue","answered":true,"reason":""}`, "")
	wg.Wait()

	ask("2", `{"answer":"","answered":false,"reason":"Ask me tomorrow."}`, "")
	h.answer(h.askedFor(r, "2"), approval.Answer{Reason: "Ask me tomorrow."})
	wg.Wait()

	// Whoever no longer waits takes it back, and nobody is asked any more.
	ask("3", "", "broke off")
	c := h.askedFor(r, "3")
	if _, err := h.finish(r, 1, c.Effect, "It broke off."); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if c = h.approval(c.ID); c.State != approval.Withdrawn || h.effect(c.Effect).State != effects.Failed {
		t.Errorf("what was taken back is %s, its effect %s", c.State, h.effect(c.Effect).State)
	}

	for _, bad := range []struct{ input, says string }{
		{`{}`, "input.question"}, {`{"question":"  "}`, "input.question"}, {`{"question":"x","options":["a",""]}`, "input.options"},
		{`{"question":"x","options":["a","a"]}`, "differ"}, {`{"question":"x","options":["a\nb"]}`, "lines"},
		{`{"question":"x","options":[` + strings.Repeat(`"a",`, maxOptions) + `"b"]}`, "more than 32"},
	} {
		_, err := h.execute(r, "bad", wire.MCPAskQuestion, bad.input)
		refused(t, err, wire.CodeInvalidParams, bad.says)
	}

	// With the turn it is withdrawn.
	ask("4", "", "turn ended")
	d := h.askedFor(r, "4")
	h.goOn(r.ID)
	wg.Wait()
	h.until(r.ID, "end of the turn", func(r supervisor.Record) bool { return r.Phase == mission.Waiting })
	if d = h.approval(d.ID); d.State != approval.Withdrawn {
		t.Errorf("after the turn it is %s", d.State)
	}
}

// At the deadline a question expires, whoever tells of the end first.
func TestQuestionExpires(t *testing.T) {
	h := newHouse(t)
	r := h.asking(h.start(h.checkout("a"), asksAndWaits, "").ID, 1)
	// The socket ends the calls of a service that ends.
	ctx, end := context.WithCancel(context.Background())
	old, call := h.s, h.call(r, "1", wire.MCPAskQuestion, `{"question":"Which?"}`)
	var wg sync.WaitGroup
	wg.Go(func() {
		if got, err := old.ExecuteTool(ctx, actor(r, 1), call); err == nil {
			t.Errorf("it gave %s", got.Result)
		}
	})
	a := h.askedFor(r, "1")
	h.ahead.Add(int64(16 * time.Minute))
	end()
	h.restart()
	h.until(r.ID, "deadline", func(r supervisor.Record) bool { return r.Phase.Terminal() })
	wg.Wait()
	if a = h.approval(a.ID); a.State != approval.Expired {
		t.Errorf("after the deadline it is %s", a.State)
	}
}
