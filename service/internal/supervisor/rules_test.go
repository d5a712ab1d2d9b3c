package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/store"
)

// desk is a mission whose agent only asks, without a guard.
type desk struct {
	t      *testing.T
	db     *store.DB
	w      *worker
	folder string
	seq    uint64
	shown  []string // approvals as they were announced
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	db, err := store.Open(filepath.Join(t.TempDir(), "reeve.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, db: db, folder: t.TempDir()}
	s := New(Options{
		DB: db, Blobs: store.OpenBlobs(filepath.Join(t.TempDir(), "blobs")), Log: slog.New(slog.DiscardHandler),
		Now: func() mission.Instant { return mission.Instant{Wall: time.Unix(100, 0)} },
		Announce: Announcer{Mission: func(Record) {}, Entry: func(string, wire.Entry) {},
			Approval: func(a approvals.Record) { d.shown = append(d.shown, a.ID+" "+string(a.State)) }},
	})
	t.Cleanup(func() {
		s.Close()
		if err := db.Check(); err != nil {
			t.Error(err)
		}
		_ = db.Close()
	})
	d.w = newWorker(s, Record{
		ID: "m-1", Attempt: "a-1", Phase: mission.Working, Project: "/src", Deadline: mission.NewDeadline(s.Now(), 60),
		Terms: mission.Terms{Folder: d.folder, Unasked: []mission.Unasked{mission.UnaskedEdits}},
		Turns: []Turn{{ID: "t-1", Number: 1}},
	})
	return d
}

// command is a request of the agent, and how it stands then.
func (d *desk) command(text string) approvals.Record {
	d.t.Helper()
	return d.ask("execute", approval.Subject{Title: text, Tool: "Bash", Command: text, Cwd: d.folder}, nil)
}

func (d *desk) ask(class string, s approval.Subject, paths []wire.ResolvedPath) approvals.Record {
	d.t.Helper()
	d.seq++
	id := fmt.Sprintf("p-%03d", d.seq)
	kind := approval.ToolCall
	if class == "edit" {
		kind = approval.FileChange
	}
	subject, err := json.Marshal(s)
	if err != nil {
		d.t.Fatal(err)
	}
	data, err := json.Marshal(wire.Permission{Turn: "t-1", Request: id, Kind: string(kind), Class: class, Subject: subject, Digest: "d-" + id, Paths: paths})
	if err != nil {
		d.t.Fatal(err)
	}
	e := wire.Entry{Seq: d.seq, At: time.Unix(100, 0), Kind: wire.KindPermissionAsked, Data: data}
	d.w.ingest(e)
	d.w.ingest(e) // again changes nothing
	if d.w.fault != nil {
		d.t.Fatal(d.w.fault)
	}
	return d.get(id)
}

func (d *desk) get(id string) (r approvals.Record) {
	d.t.Helper()
	if err := d.db.View(func(tx *store.Tx) (err error) { r, _, err = approvals.Get(tx, id); return }); err != nil {
		d.t.Fatal(err)
	}
	return r
}

func (d *desk) rules() (all []approval.Rule) {
	d.t.Helper()
	if err := d.db.View(func(tx *store.Tx) (err error) { all, err = approvals.Rules(tx); return }); err != nil {
		d.t.Fatal(err)
	}
	return all
}

func (d *desk) update(fn func(tx *store.Tx) error) {
	d.t.Helper()
	if err := d.db.Update(context.Background(), fn); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) answer(a approvals.Record, allow bool, reach, pattern string) approvals.Record {
	d.t.Helper()
	r, err := d.w.answerTool(a, a.Digest, approvals.Answer{Answer: approval.Answer{Allow: allow, For: reach, Pattern: pattern},
		Who: approvals.Who{Via: "program", Program: "test"}, At: time.Unix(100, 0)})
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

func (d *desk) state(a approvals.Record, want approval.State, rule string) {
	d.t.Helper()
	if a.State != want || rule != "" && (a.Answer == nil || a.Answer.Who.Rule != rule) {
		d.t.Errorf("%s is %s by %+v, want %s by %s", a.ID, a.State, a.Answer, want, rule)
	}
}

// Case 21: what was allowed for the mission is allowed again, and nothing more.
func TestAnAnswerMakesARule(t *testing.T) {
	d := newDesk(t)
	first := d.answer(d.command("git status"), true, approval.ForMission, "")
	if first.Rule == "" || first.State != approval.Allowed {
		t.Fatalf("%+v", first)
	}
	d.state(d.command("git status"), approval.Allowed, first.Rule)
	for _, text := range []string{"git status; curl x | sh", "git status $(x)", "git  status\n", "git status --short"} {
		d.state(d.command(text), approval.Pending, "")
	}
	rules := d.rules()
	if len(rules) != 1 || rules[0].Uses != 1 || !rules[0].UsedAt.Equal(time.Unix(100, 0)) || rules[0].By != "test (pid 0)" {
		t.Errorf("%+v", rules)
	}
	var kinds []string
	entries, err := d.db.Audit(1, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Kind == store.AuditRule || e.Kind == store.AuditAnswer {
			kinds = append(kinds, e.Kind+" "+e.Actor)
		}
	}
	if want := []string{"rule test (pid 0)", "answer test (pid 0)", "answer rule " + first.Rule}; !slices.Equal(kinds, want) {
		t.Errorf("the audit says %q, want %q", kinds, want)
	}
}

func TestAPatternMakesARule(t *testing.T) {
	d := newDesk(t)
	ask := d.command("go test ./a")
	if _, err := d.w.answerTool(ask, ask.Digest, approvals.Answer{Answer: approval.Answer{Allow: true, For: approval.ForProject, Pattern: "go *"}}); err == nil {
		t.Fatal("a pattern that was not offered was taken")
	}
	d.state(d.get(ask.ID), approval.Pending, "")
	rule := d.answer(ask, true, approval.ForProject, "go test *").Rule
	d.state(d.command("go test ./a ./b"), approval.Allowed, rule)
	d.state(d.command("go test ./a && x"), approval.Pending, "")
	// Narrower at once, wider never.
	edit := func(pattern string) (err error) {
		return d.db.Update(context.Background(), func(tx *store.Tx) error {
			_, err := approvals.EditRule(tx, rule, "", pattern, "test")
			return err
		})
	}
	if err := edit("go *"); !errors.Is(err, approvals.ErrWider) {
		t.Errorf("wider: %v", err)
	}
	if err := edit("go test ./a *"); err != nil {
		t.Errorf("narrower: %v", err)
	}
	d.state(d.command("go test ./c"), approval.Pending, "")
}

// A rule that denies comes before what the terms allow unasked, and before
// every rule that allows.
func TestDenyComesFirst(t *testing.T) {
	d := newDesk(t)
	change := func(name string) approvals.Record {
		path := filepath.Join(d.folder, name)
		return d.ask("edit", approval.Subject{Title: "Edit", Tool: "Edit", Paths: []string{path}, Diff: "+x"}, []wire.ResolvedPath{{Asked: path, Resolved: path}})
	}
	d.state(change("a.md"), approval.Allowed, "edits")
	deny, err := approval.HandRule(approval.Deny, true, "a.md")
	if err != nil {
		t.Fatal(err)
	}
	deny.ID, deny.Reach, deny.Project = "r-1", approval.ForProject, "/src"
	d.update(func(tx *store.Tx) error { return approvals.AddRule(tx, deny) })
	refused := change("a.md")
	d.state(refused, approval.Denied, "r-1")
	if refused.Answer.Reason == "" || d.w.rec.Denials.Count != 1 {
		t.Errorf("%+v, %d denials", refused.Answer, d.w.rec.Denials.Count)
	}
	d.state(change("b.md"), approval.Allowed, "edits")

	allow := d.answer(d.command("npm test"), true, approval.ForMission, "").Rule
	d.state(d.command("npm test"), approval.Allowed, allow)
	d.update(func(tx *store.Tx) error {
		_, err := approvals.EditRule(tx, allow, approval.Deny, "", "test")
		return err
	})
	d.state(d.command("npm test"), approval.Denied, allow)
}

func TestARevokedRuleDecidesNothing(t *testing.T) {
	d := newDesk(t)
	rule := d.answer(d.command("npm test"), true, approval.ForProject, "npm test *").Rule
	stale := d.rules()[0]
	d.state(d.command("npm test"), approval.Allowed, rule)
	d.update(func(tx *store.Tx) error { _, err := approvals.RevokeRule(tx, rule, "test"); return err })
	d.state(d.command("npm test"), approval.Pending, "")
	// Not even when it was found to match just before.
	err := d.db.Update(context.Background(), func(tx *store.Tx) error {
		_, err := approvals.Apply(tx, approvals.Record{ID: "p-x", Mission: "m-1"}, stale, time.Unix(100, 0))
		return err
	})
	if !errors.Is(err, approvals.ErrNoRule) {
		t.Errorf("a revoked rule was applied: %v", err)
	}
}

// Rules for the mission end with it; those for the project stay.
func TestRulesEndWithTheMission(t *testing.T) {
	d := newDesk(t)
	d.answer(d.command("npm test"), true, approval.ForMission, "")
	d.answer(d.command("npm run x"), false, approval.ForMission, "")
	kept := d.answer(d.command("go vet"), true, approval.ForProject, "").Rule
	if n := len(d.rules()); n != 3 {
		t.Fatalf("%d rules", n)
	}
	d.update(func(tx *store.Tx) error {
		r := d.w.rec.clone()
		r.Phase = mission.Stopped
		return save(tx, r)
	})
	if left := d.rules(); len(left) != 1 || left[0].ID != kept {
		t.Errorf("left: %+v", left)
	}
}

// An answer and its rule are journaled together or not at all.
func TestAnswerAndRuleAreOne(t *testing.T) {
	d := newDesk(t)
	d.update(func(tx *store.Tx) error {
		for i := range approvals.MaxRules {
			if err := approvals.AddRule(tx, approval.Rule{ID: fmt.Sprintf("r-%05d", i), Effect: approval.Deny, Reach: approval.ForMission, Mission: "m-2"}); err != nil {
				return err
			}
		}
		return nil
	})
	ask := d.command("npm test")
	_, err := d.w.answerTool(ask, ask.Digest, approvals.Answer{Answer: approval.Answer{Allow: true, For: approval.ForMission}})
	var refused *wire.Error
	if !errors.As(err, &refused) || refused.Code != wire.CodeLimitExceeded {
		t.Errorf("without room for the rule: %v", err)
	}
	d.state(d.get(ask.ID), approval.Pending, "")
	d.answer(ask, true, approval.ForOnce, "")
}

// A request that repeats one which waits joins it: one question, one answer for
// both. Case 22: with another argument it is another question.
func TestARepeatJoins(t *testing.T) {
	d := newDesk(t)
	first, again, other := d.command("npm test"), d.command("npm test"), d.command("npm test x")
	if again.Joins != first.ID || other.Joins != "" || other.Digest == first.Digest {
		t.Fatalf("%+v\n%+v", again, other)
	}
	if want := []string{first.ID + " pending", other.ID + " pending"}; !slices.Equal(d.shown, want) {
		t.Errorf("shown: %q, want %q", d.shown, want)
	}
	d.answer(first, true, approval.ForOnce, "")
	d.state(d.get(again.ID), approval.Allowed, "")
	d.state(d.get(other.ID), approval.Pending, "")
	if err := d.db.View(func(tx *store.Tx) error {
		heard, err := approvals.Unheard(tx, "m-1")
		if len(heard) != 2 {
			t.Errorf("%d answers are brought to the guard", len(heard))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// What is answered is not joined; what ends unanswered hands on the question.
	third, fourth, fifth := d.command("npm test"), d.command("npm test"), d.command("npm test")
	if third.Joins != "" || fourth.Joins != third.ID || fifth.Joins != third.ID {
		t.Fatalf("%q %q %q", third.Joins, fourth.Joins, fifth.Joins)
	}
	d.seq++
	data, _ := json.Marshal(wire.PermissionResolved{Turn: "t-1", Request: third.ID, Outcome: "withdrawn", By: "turn"})
	d.w.ingest(wire.Entry{Seq: d.seq, At: time.Unix(100, 0), Kind: wire.KindPermissionResolved, Data: data})
	if a, b := d.get(fourth.ID), d.get(fifth.ID); a.Joins != "" || a.State != approval.Pending || b.Joins != a.ID {
		t.Errorf("%+v\n%+v", a, b)
	}
	d.update(func(tx *store.Tx) error {
		_, err := approvals.CloseAll(tx, "m-1", approval.Withdrawn, "stop", time.Unix(100, 0))
		return err
	})
	for _, id := range []string{fourth.ID, fifth.ID, other.ID} {
		d.state(d.get(id), approval.Withdrawn, "")
	}
}
