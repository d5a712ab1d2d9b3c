package supervisor

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/approvals"
	"github.com/reevehq/reeve/service/internal/store"
)

// An entry of a guard's log counts once, however often it is read: again on the
// same connection, and after a restart that has only the journal.
func TestAnEntryCountsOnce(t *testing.T) {
	db, err := store.Open(filepath.Join(t.TempDir(), "reeve.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	told := 0
	s := New(Options{
		DB: db, Log: slog.New(slog.DiscardHandler),
		Now:      func() mission.Instant { return mission.Instant{Wall: time.Unix(100, 0)} },
		Announce: Announcer{Mission: func(Record) {}, Approval: func(approvals.Record) {}, Entry: func(string, wire.Entry) { told++ }},
	})
	defer s.Close()
	folder := t.TempDir()
	rec := Record{
		ID: "m-1", Attempt: "a-1", Phase: mission.Working, Ingested: 4,
		Terms: mission.Terms{Folder: folder, Unasked: []mission.Unasked{mission.UnaskedReads}},
		Turns: []Turn{{ID: "t-1", Number: 1}},
	}
	file := filepath.Join(folder, "x")
	entry := func(seq uint64, kind string, v any) wire.Entry {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return wire.Entry{Seq: seq, At: time.Unix(100, 0), Kind: kind, Data: data}
	}
	subject, err := json.Marshal(approval.Subject{Tool: "Read", Paths: []string{file}})
	if err != nil {
		t.Fatal(err)
	}
	asked := entry(5, wire.KindPermissionAsked, wire.Permission{
		Turn: "t-1", Request: "p-1", Kind: string(approval.ToolCall), Class: "read", Subject: subject, Digest: "d",
		Paths: []wire.ResolvedPath{{Asked: file, Resolved: file}},
	})
	check := func(when string, r Record) {
		t.Helper()
		if r.Ingested < 5 || r.Unasked["reads"] != 1 {
			t.Errorf("%s: ingested %d, reads %d; want 1 read", when, r.Ingested, r.Unasked["reads"])
		}
	}
	w := newWorker(s, rec)
	for range 3 {
		w.ingest(asked)
	}
	check("read three times", w.rec)
	if w.fault != nil || told != 1 {
		t.Fatalf("told %d times, %v", told, w.fault)
	}
	var kept []Record
	if err := db.View(func(tx *store.Tx) (err error) { kept, err = LoadLive(tx); return }); err != nil || len(kept) != 1 {
		t.Fatalf("%d records are journaled, %v", len(kept), err)
	}
	check("journaled", kept[0])
	w = newWorker(s, kept[0])
	w.ingest(asked)
	check("read after a restart", w.rec)
	var all []approvals.Record
	if err := db.View(func(tx *store.Tx) (err error) { all, err = approvals.Recent(tx, "m-1", 10); return }); err != nil || len(all) != 1 {
		t.Fatalf("%d approvals, %v", len(all), err)
	}
}
