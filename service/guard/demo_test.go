//go:build unix

package guard_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/provider/demo"
)

func demoPrompt(scope string) string {
	return mission.TurnPrompt(mission.PromptInput{Scope: scope, EndsAt: time.Now().Add(time.Hour), Turn: 1})
}

// agent is a started guard for the demo agent in its sample repository.
func agent(t *testing.T) (*worker, *guard.Client) {
	t.Helper()
	w := spawn(t)
	w.launch.Folder = filepath.Join(filepath.Dir(w.folder), "the sample ü")
	if err := demo.Sample(w.launch.Folder); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w.launch.Provider, w.launch.Path, w.launch.Args = "acp:demo", exe, []string{"demo-agent"}
	w.launch.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(w.folder), "GORACE=atexit_sleep_ms=0"}
	c, _ := w.claim(1)
	if err := c.Start(within(t), wire.StartParams{Launch: w.launch}); err != nil {
		t.Fatal(err)
	}
	return w, c
}

// allow answers everything with yes until the turn ends.
func allow(t *testing.T, c *guard.Client) (asked []wire.Permission, fin wire.TurnFinished) {
	t.Helper()
	for {
		e := next(t, c, wire.KindPermissionAsked, wire.KindTurnFinished)
		if e.Kind == wire.KindTurnFinished {
			return asked, data[wire.TurnFinished](t, e)
		}
		p := data[wire.Permission](t, e)
		asked = append(asked, p)
		if got := resolve(t, c, wire.ResolveParams{Request: p.Request, Digest: p.Digest, Allow: true, By: "program"}); got != "delivered" {
			t.Fatal(got)
		}
	}
}

func TestDemoMission(t *testing.T) {
	w, c := agent(t)
	w.turn(c, demoPrompt("Mend the thermometer."))
	asked, fin := allow(t, c)
	if fin.Outcome != "succeeded" || fin.Next != "done" || len(fin.Left) > 0 {
		t.Fatalf("%+v", fin)
	}
	var kinds []string
	for _, p := range asked {
		kinds = append(kinds, p.Class)
		for _, path := range p.Paths {
			if path.Err != "" {
				t.Errorf("%+v", path)
			}
		}
	}
	if !slices.Equal(kinds, []string{"read", "read", "edit", "execute"}) {
		t.Fatalf("asked for %v", kinds)
	}
	var s approval.Subject
	if err := json.Unmarshal(asked[2].Subject, &s); err != nil || s.Diff == "" || asked[2].Kind != "file_change" {
		t.Fatalf("%+v %v", asked[2], err)
	}
	var session string
	for _, e := range w.log() {
		if e.Kind == wire.KindSessionStarted {
			session = data[wire.SessionStarted](t, e).ProviderSession
		}
	}
	err := c.Turn(within(t), wire.TurnParams{Turn: "t-2", Number: 2, Prompt: demoPrompt("Look again."), Resume: session})
	if err != nil {
		t.Fatal(err)
	}
	if s := data[wire.SessionStarted](t, next(t, c, wire.KindSessionStarted)); !s.Resumed || s.ProviderSession != session {
		t.Fatalf("%+v, want %s resumed", s, session)
	}
	if _, fin := allow(t, c); fin.Outcome != "succeeded" {
		t.Fatalf("%+v", fin)
	}
}

func TestDemoAgentIsEnded(t *testing.T) {
	t.Run("leaves a process", func(t *testing.T) {
		t.Parallel()
		w, c := agent(t)
		w.turn(c, demoPrompt("demo:spawn"))
		if _, fin := allow(t, c); fin.Outcome != "succeeded" || fin.Ended == 0 {
			t.Fatalf("%+v", fin)
		}
	})
	t.Run("paused", func(t *testing.T) {
		t.Parallel()
		w, c := agent(t)
		w.turn(c, demoPrompt("demo:slow 100000"))
		next(t, c, wire.KindText)
		if err := c.Interrupt(within(t), wire.InterruptParams{Reason: "pause"}); err != nil {
			t.Fatal(err)
		}
		if fin := finished(t, c); fin.Outcome != "interrupted" {
			t.Fatalf("%+v", fin)
		}
	})
	t.Run("paused while it asks", func(t *testing.T) {
		t.Parallel()
		w, c := agent(t)
		w.turn(c, demoPrompt("Mend the thermometer."))
		p := asked(t, c)
		if err := c.Interrupt(within(t), wire.InterruptParams{Reason: "pause"}); err != nil {
			t.Fatal(err)
		}
		r := data[wire.PermissionResolved](t, next(t, c, wire.KindPermissionResolved))
		if fin := finished(t, c); r.Request != p.Request || r.Outcome != "withdrawn" || fin.Outcome != "interrupted" {
			t.Fatalf("%+v %+v", r, fin)
		}
	})
	t.Run("stopped inside a command", func(t *testing.T) {
		t.Parallel()
		w, c := agent(t)
		w.turn(c, demoPrompt("demo:command sleep 300"))
		p := asked(t, c)
		resolve(t, c, wire.ResolveParams{Request: p.Request, Digest: p.Digest, Allow: true, By: "program"})
		res, err := c.Stop(within(t), wire.GuardStopParams{Reason: "person"})
		if err != nil || len(res.Left) > 0 {
			t.Fatalf("%+v %v", res, err)
		}
		if fin := finished(t, c); fin.Outcome != "interrupted" {
			t.Fatalf("%+v", fin)
		}
		ends(t, "the keeper", proc.ID(c.Record.Keeper))
	})
	t.Run("crashes", func(t *testing.T) {
		t.Parallel()
		w, c := agent(t)
		w.turn(c, demoPrompt("demo:crash"))
		if _, fin := allow(t, c); fin.Outcome != "failed" || fin.Code != "local_execution_failure" {
			t.Fatalf("%+v", fin)
		}
	})
}
