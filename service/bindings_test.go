package service

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
)

// model is what the binding of one mission must be: who may verify, and what is
// lent.
type model struct {
	run     supervisor.Bridge
	token   string // that counts; "" for none
	session string
	origin  string
	room    string
	bound   bool
	memory  bool     // the token can be lent
	dead    []string // tokens that never count again
}

// TestBindingsAgainstAModel plays random binds, verifications, loans, moves, new
// runs and restarts of the service.
func TestBindingsAgainstAModel(t *testing.T) {
	const entry = "m-1"
	dirs := 0
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		dirs++
		path := filepath.Join(root, fmt.Sprint(dirs))
		var db *store.DB
		var b *bindings
		runs := 0
		m := model{}
		open := func() {
			var err error
			if db, err = store.Open(path, store.Options{}); err != nil {
				t.Fatal(err)
			}
			if b, err = loadBindings(ctx, db); err != nil {
				t.Fatal(err)
			}
		}
		// A new run is journaled by the mission, and told to the bindings.
		begin := func() {
			runs++
			m.run.Execution, m.run.Session = fmt.Sprint("x-", runs), fmt.Sprint("s-", runs)
			if m.run.Room == "" {
				m.run.Room = "r-1"
			}
			if m.token != "" {
				m.dead = append(m.dead, m.token)
			}
			m.token, m.session, m.origin, m.bound, m.memory = "", "", "", false, false
			keep(t, db, entry, m.run)
			b.runIs(entry, m.run.Execution)
		}
		open()
		defer func() { _ = db.Close() }()
		begin()
		urls := []string{wire.LocalOrigin, "https://a.example", "https://b.example"}
		params := func() wire.BindParams {
			tokens := append([]string{m.token + "!", "theirs", "others"}, m.dead...)
			if m.token != "" {
				tokens = append(tokens, m.token, m.token, m.token)
			}
			return wire.BindParams{
				Coordinates: wire.Coordinates{Entry: entry, Attempt: "a-1", Execution: rapid.SampledFrom([]string{m.run.Execution, m.run.Execution, m.run.Execution, "x-0"}).Draw(t, "execution")},
				WorkerSession: wire.WorkerSession{
					Room:    rapid.SampledFrom([]string{m.run.Room, m.run.Room, "r-1", "r-2"}).Draw(t, "room"),
					Session: rapid.SampledFrom([]string{m.run.Session, m.run.Session, "s-theirs"}).Draw(t, "session"),
					Token:   rapid.SampledFrom(tokens).Draw(t, "token"),
					APIURL:  rapid.SampledFrom(urls).Draw(t, "url"),
				},
			}
		}
		exact := func(p wire.BindParams) bool {
			return m.token != "" && p.Execution == m.run.Execution && p.Session == m.session && p.Token == m.token && p.APIURL == m.origin
		}
		t.Repeat(map[string]func(*rapid.T){
			"bind": func(t *rapid.T) {
				p := params()
				if p.Execution != m.run.Execution {
					return // the service refuses it before
				}
				err := b.bind(ctx, p, m.run)
				switch {
				case p.Room != m.run.Room:
					if err == nil {
						t.Fatal("bound for a room that the worker is not in")
					}
				case exact(p):
					if err != nil {
						t.Fatalf("the same again: %v", err)
					}
					m.bound, m.memory, m.room = true, true, p.Room
				case m.bound, p.APIURL == wire.LocalOrigin:
					if err == nil {
						t.Fatalf("bound %+v over %+v", p, m)
					}
				default:
					if err != nil {
						t.Fatalf("another service's session: %v", err)
					}
					if m.token != "" {
						m.dead = append(m.dead, m.token)
					}
					m.token, m.session, m.origin, m.room, m.bound, m.memory = p.Token, p.Session, p.APIURL, p.Room, true, true
				}
			},
			"verify": func(t *rapid.T) {
				p := params()
				if got, want := b.verify(p), exact(p) && m.bound && p.Room == m.room; got != want {
					t.Fatalf("verified %+v: %v with %+v", p, got, m)
				}
			},
			"borrow": func(t *rapid.T) {
				p := params()
				if p.Execution != m.run.Execution {
					return
				}
				got, err := b.borrow(ctx, wire.BorrowParams{Coordinates: p.Coordinates, Room: p.Room, Session: p.Session, APIURL: p.APIURL}, m.run)
				if err != nil {
					t.Fatal(err)
				}
				local := p.APIURL == wire.LocalOrigin
				mine := m.token != "" && p.Session == m.session && p.APIURL == m.origin && (local || p.Room == m.room)
				want := wire.BorrowStale
				switch {
				case p.Room != m.run.Room, m.token != "" && !mine:
				case mine && m.memory:
					want = wire.BorrowAvailable
				case !local:
					want = wire.BorrowDeferred
				case p.Session == m.run.Session:
					want = wire.BorrowAvailable
				}
				if got.Status != want || (got.Credential != "") != (want == wire.BorrowAvailable) {
					t.Fatalf("lent %+v, want %s with %+v", got, want, m)
				}
				if want != wire.BorrowAvailable {
					return
				}
				if m.memory && got.Credential != m.token {
					t.Fatal("lent another token than the one that counts")
				}
				if !m.memory { // a new one, and the old one is dropped
					if m.token != "" {
						m.dead = append(m.dead, m.token)
					}
					m.token, m.session, m.origin, m.room, m.bound, m.memory = got.Credential, p.Session, p.APIURL, p.Room, false, true
				}
			},
			"move": func(t *rapid.T) {
				m.run.Room = rapid.SampledFrom([]string{"r-1", "r-2"}).Draw(t, "to")
				keep(t, db, entry, m.run)
			},
			"new run": func(*rapid.T) { begin() },
			"restart": func(t *rapid.T) {
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				open()
				m.memory = false
			},
			"": func(t *rapid.T) {
				p := wire.BindParams{Coordinates: wire.Coordinates{Entry: entry, Attempt: "a-1", Execution: m.run.Execution},
					WorkerSession: wire.WorkerSession{Room: m.room, Session: m.session, Token: m.token, APIURL: m.origin}}
				if got := b.verify(p); got != m.bound {
					t.Fatalf("the token that counts is verified: %v with %+v", got, m)
				}
				for _, dead := range m.dead {
					for _, url := range urls {
						for _, session := range []string{m.run.Session, m.session, "s-theirs"} {
							p := wire.BindParams{Coordinates: wire.Coordinates{Entry: entry, Attempt: "a-1", Execution: m.run.Execution},
								WorkerSession: wire.WorkerSession{Room: m.room, Session: session, Token: dead, APIURL: url}}
							if b.verify(p) && dead != m.token {
								t.Fatalf("a dropped token is verified: %+v", p)
							}
						}
					}
				}
			},
		})
	})
}

// keep journals a live mission with a run.
func keep(t *rapid.T, db *store.DB, entry string, run supervisor.Bridge) {
	err := db.Update(context.Background(), func(tx *store.Tx) error {
		return store.PutJSON(tx, "missions", entry, supervisor.Record{ID: entry, Phase: mission.Working, Attempt: "a-1", Bridge: run})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Verifying waits neither for the journal nor for who does.
func TestVerifyWaitsForNothing(t *testing.T) {
	ctx := context.Background()
	db, err := store.Open(filepath.Join(t.TempDir(), "reeve.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b, err := loadBindings(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	p := wire.BindParams{
		Coordinates:   wire.Coordinates{Entry: "m-1", Attempt: "a-1", Execution: "x-1"},
		WorkerSession: wire.WorkerSession{Room: "r-1", Session: "s-1", Token: "t", APIURL: "https://a.example"},
	}
	run := supervisor.Bridge{Execution: "x-1", Room: "r-1"}
	if err := b.bind(ctx, p, run); err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	stuck, release := make(chan struct{}), make(chan struct{})
	writing.Go(func() {
		if err := db.Update(ctx, func(*store.Tx) error { close(stuck); <-release; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-stuck
	other := p
	other.Entry = "m-2"
	begun := make(chan struct{})
	writing.Go(func() {
		close(begun)
		if err := b.bind(ctx, other, run); err != nil {
			t.Error(err)
		}
	})
	<-begun
	for b.write.TryLock() { // until it waits for the disk
		b.write.Unlock()
		runtime.Gosched()
	}
	if !b.verify(p) || b.verify(other) {
		t.Error("what is bound is not what is verified")
	}
	close(release)
	writing.Wait()
	if !b.verify(other) {
		t.Error("what was bound meanwhile is not verified")
	}
}
