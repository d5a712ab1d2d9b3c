// Package conform drives a provider in tests and checks what every provider
// must keep: a call starts before it ends, a request is withdrawn or answered
// before its turn ends, a turn ends once, and the stream ends with the program.
package conform

import (
	"context"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reevehq/reeve/service/provider"
)

// patience is how long a test waits for the next event before it fails: some
// programs try a model again for four minutes before they say a word. It is
// no measure of speed.
const patience = 8 * time.Minute

// Session is an open provider under test.
type Session struct {
	Conn    provider.Conn
	Started provider.SessionStarted
	Process *exec.Cmd
	Lingers bool // it goes on after the end of its input, so that Close need not wait

	t       *testing.T
	running map[string]bool // calls
	open    map[string]bool // requests
	closed  bool
}

// Turn is what one turn emitted.
type Turn struct {
	Events   []provider.Event
	Finished provider.TurnFinished
}

// Open opens p and ends it with the test.
func Open(t *testing.T, p provider.Provider, spec provider.Spec) *Session {
	t.Helper()
	s, err := TryOpen(t, p, spec)
	if err != nil {
		t.Fatalf("open %s: %v", p.Name(), err)
	}
	return s
}

// TryOpen is Open for a provider that may refuse.
func TryOpen(t *testing.T, p provider.Provider, spec provider.Spec) (*Session, error) {
	t.Helper()
	s := &Session{t: t, running: map[string]bool{}, open: map[string]bool{}}
	spec.Launch = func(cmd *exec.Cmd) error {
		s.Process = cmd
		group(cmd)
		return cmd.Start()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := p.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	s.Conn = conn
	t.Cleanup(s.Close)
	first, ok := s.next().(provider.SessionStarted)
	if !ok || first.Session == "" {
		t.Fatalf("the first event is not the start of a session: %#v", first)
	}
	s.Started = first
	return s, nil
}

func (s *Session) next() provider.Event {
	s.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case ev := <-s.Conn.Events():
		return ev
	case <-timer.C:
		s.t.Fatal("no event came")
		return nil
	}
}

// Do runs one turn and calls on, which may be nil, with each event.
func (s *Session) Do(prompt string, on func(provider.Event)) Turn {
	s.t.Helper()
	if err := s.Conn.Prompt(context.Background(), prompt); err != nil {
		s.t.Fatalf("prompt: %v", err)
	}
	var turn Turn
	for {
		ev := s.next()
		if ev == nil {
			s.t.Fatalf("the stream ended inside a turn; it said %+v", turn.Events)
		}
		turn.Events = append(turn.Events, ev)
		s.check(ev)
		if end, ok := ev.(provider.TurnFinished); ok {
			turn.Finished = end
			return turn
		}
		if on != nil {
			on(ev)
		}
	}
}

func (s *Session) check(ev provider.Event) {
	s.t.Helper()
	switch e := ev.(type) {
	case provider.ToolStarted:
		if s.running[e.Tool.Call] || e.Tool.Call == "" {
			s.t.Errorf("call %q started twice", e.Tool.Call)
		}
		s.running[e.Tool.Call] = true
	case provider.ToolFinished:
		if !s.running[e.Call] {
			s.t.Errorf("call %q ended but never started", e.Call)
		}
		delete(s.running, e.Call)
	case provider.PermissionRequested:
		if !s.running[e.Tool.Call] {
			s.t.Errorf("call %q asks before it started", e.Tool.Call)
		}
		s.open[e.Request] = true
	case provider.PermissionWithdrawn:
		if !s.open[e.Request] {
			s.t.Errorf("request %q was withdrawn but is not open", e.Request)
		}
		delete(s.open, e.Request)
	case provider.TurnFinished:
		if len(s.running) > 0 || len(s.open) > 0 {
			s.t.Errorf("the turn ended with open calls %v and requests %v", s.running, s.open)
		}
		if e.Outcome.Outcome == "" || e.Outcome.Seconds < 0 {
			s.t.Errorf("the turn has no outcome: %+v", e)
		}
	}
}

// Answer answers a request and fails the test if it is gone.
func (s *Session) Answer(e provider.PermissionRequested, a provider.Answer) {
	s.t.Helper()
	if err := s.Conn.Answer(context.Background(), e.Request, a); err != nil {
		s.t.Errorf("answer %q: %v", e.Tool.Title, err)
	}
	delete(s.open, e.Request)
}

// Allow returns a handler that allows every request.
func (s *Session) Allow() func(provider.Event) {
	return s.Decide(func(provider.PermissionRequested) provider.Answer { return provider.Answer{Allow: true} })
}

// Decide returns a handler that answers every request as f says.
func (s *Session) Decide(f func(provider.PermissionRequested) provider.Answer) func(provider.Event) {
	return func(ev provider.Event) {
		if e, ok := ev.(provider.PermissionRequested); ok {
			s.Answer(e, f(e))
		}
	}
}

// Close ends the program politely and reads the stream to its end.
func (s *Session) Close() {
	if s.closed {
		return
	}
	s.closed = true
	wait := 10 * time.Second
	if s.Lingers {
		wait = time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Conn.Close(ctx); err != nil {
			s.Process.Process.Kill() // it is in a tool; the tree's owner would do this
		}
	})
	for ev := range s.Conn.Events() {
		s.check(ev)
	}
	wg.Wait()
	endGroup(s.Process) // some leave a process of their own, and with it their MCP servers
}

// Text is everything that the agent said.
func (t Turn) Text() string {
	var b strings.Builder
	for _, ev := range t.Events {
		if e, ok := ev.(provider.Text); ok {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

// Of returns the events of one type.
func Of[E provider.Event](t Turn) []E {
	var list []E
	for _, ev := range t.Events {
		if e, ok := ev.(E); ok {
			list = append(list, e)
		}
	}
	return list
}
