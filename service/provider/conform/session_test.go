package conform_test

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
	"github.com/reevehq/reeve/service/provider/modelstub"
)

func withdrawn(t *testing.T, w *world) {
	s := w.open()
	var request string
	turn := s.Do(w.c.commands("touch made.txt"), func(ev provider.Event) {
		if e, ok := ev.(provider.PermissionRequested); ok {
			request = e.Request
			if err := s.Conn.Interrupt(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	w.want(turn, mission.Interrupted, "")
	if gone := conform.Of[provider.PermissionWithdrawn](turn); len(gone) != 1 || gone[0].Request != request {
		t.Errorf("withdrawn %+v", gone)
	}
	if err := s.Conn.Answer(t.Context(), request, provider.Answer{Allow: true}); !errors.Is(err, provider.ErrNoRequest) {
		t.Errorf("a late answer: %v", err)
	}
	w.goesOn(s)
	if w.has("made.txt") {
		t.Error("what was withdrawn ran")
	}
}

// goesOn proves that a session takes another turn.
func (w *world) goesOn(s *conform.Session) {
	w.t.Helper()
	w.want(s.Do(w.c.text("again"), nil), mission.Succeeded, "")
}

func interruptStream(t *testing.T, w *world) {
	s := w.open()
	once := false
	turn := s.Do(w.c.pieces(3000, 50), func(ev provider.Event) {
		if _, ok := ev.(provider.Text); ok && !once {
			once = true
			if err := s.Conn.Interrupt(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	w.want(turn, mission.Interrupted, "")
	w.goesOn(s)
}

func interruptTool(t *testing.T, w *world) {
	s := w.open()
	command := "sh -c 'touch running; exec sleep 120'"
	if w.c.binary == "" {
		// The demo agent splits at spaces and knows no quotes.
		w.file("wait.sh", "touch running; exec sleep 120\n")
		command = "sh wait.sh"
	}
	var wg sync.WaitGroup
	turn := s.Do(w.c.commands(command), func(ev provider.Event) {
		if e, ok := ev.(provider.PermissionRequested); ok {
			s.Answer(e, provider.Answer{Allow: true})
			wg.Go(func() {
				w.wait("running")
				if err := s.Conn.Interrupt(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	})
	wg.Wait()
	w.want(turn, mission.Interrupted, "")
	if done := conform.Of[provider.ToolFinished](turn); len(done) != 1 || done[0].Status == "ok" {
		t.Errorf("finished %+v", done)
	}
	w.goesOn(s)
}

// wait returns when a command has made the file.
func (w *world) wait(name string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-tick.C {
		if w.has(name) {
			return
		}
	}
	w.t.Errorf("%s was never made", name)
}

func steer(t *testing.T, w *world) {
	s := w.open()
	turn := s.Do(w.c.commands("touch one.txt", "touch two.txt"), func(ev provider.Event) {
		if e, ok := ev.(provider.PermissionRequested); ok {
			if strings.Contains(e.Tool.Command, "one") {
				if err := s.Conn.Steer(t.Context(), "canary-steering"); err != nil {
					t.Error(err)
				}
			}
			s.Answer(e, provider.Answer{Allow: true})
		}
	})
	w.want(turn, mission.Succeeded, "")
	if w.c.binary == "" && strings.Contains(turn.Text(), "canary-steering") {
		return // it has no model that could hear it
	}
	for _, r := range w.stub.Requests() {
		if strings.Contains(strings.Join(append(r.Texts, r.Results...), "\n"), "canary-steering") {
			return
		}
	}
	t.Error("the model never heard the instruction")
}

func resume(t *testing.T, w *world) {
	s := w.open()
	w.want(s.Do(w.c.text("canary-first"), nil), mission.Succeeded, "")
	s.Close()
	w.resumes(s.Started.Session)
}

func resumeKilled(t *testing.T, w *world) {
	s := w.open()
	w.want(s.Do(w.c.text("canary-first"), nil), mission.Succeeded, "")
	if err := s.Process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	w.resumes(s.Started.Session)
}

// resumes opens a session again, in a private directory of its own as another
// guard would, and proves that it still asks.
func (w *world) resumes(session string) {
	w.t.Helper()
	w.spec.Resume = session
	if w.c.binary != "" { // the demo agent keeps its sessions there
		w.spec.PrivateDir += "-2"
		if err := os.Mkdir(w.spec.PrivateDir, 0o700); err != nil {
			w.t.Fatal(err)
		}
	}
	s := w.open()
	if s.Started.Session != session || !s.Started.Resumed {
		w.t.Errorf("opened %+v", s.Started)
	}
	turn := s.Do(w.c.commands("touch made.txt"), s.Decide(func(provider.PermissionRequested) provider.Answer { return provider.Answer{} }))
	w.want(turn, mission.Succeeded, "")
	if len(conform.Of[provider.PermissionRequested](turn)) != 1 || w.has("made.txt") {
		w.t.Error("a resumed session does not ask")
	}
	if w.c.binary == "" {
		return
	}
	all := w.asked()
	if got := strings.Join(all[len(all)-1].Texts, "\n"); !strings.Contains(got, "canary-first") {
		w.t.Errorf("the model was not told the earlier turn: %q", got)
	}
	if u := turn.Finished.Outcome.Usage; u.Input == nil && w.c.na["usage per turn"] == "" || u.Input != nil && *u.Input > 2*(modelstub.InputTokens+modelstub.CacheReadTokens) {
		w.t.Errorf("the resumed turn counts the one before: %+v", u)
	}
}

func missing(t *testing.T, w *world) {
	w.spec.Resume = "01a22b32-0000-7000-8000-00000000dead"
	if w.c.binary == "" {
		w.spec.Resume = strings.Repeat("0", 32)
	}
	_, err := conform.TryOpen(t, w.p, w.spec)
	if open := (*provider.OpenError)(nil); !errors.As(err, &open) || open.Code != mission.MissingSession {
		t.Errorf("open: %v", err)
	}
}
