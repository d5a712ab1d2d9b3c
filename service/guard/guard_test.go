//go:build unix

package guard_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/proc"
)

func TestHandshake(t *testing.T) {
	w := spawn(t)
	c, res := w.claim(3)
	if res.Phase != "new" || res.LastSeq != 0 {
		t.Fatalf("claim: %+v", res)
	}
	var fence wire.Fence
	raw, err := os.ReadFile(filepath.Join(w.dir, "fence.json"))
	if err != nil || json.Unmarshal(raw, &fence) != nil || fence.Generation != 3 || fence.Owner.PID != os.Getpid() {
		t.Fatalf("fence %+v, %v", fence, err)
	}
	ctx := within(t)
	code(t, c.Turn(ctx, wire.TurnParams{Turn: "t-1", Prompt: "true"}), wire.CodeConflict)
	bad := w.launch
	bad.Digest = strings.Repeat("0", 64)
	code(t, c.Start(ctx, wire.StartParams{Launch: bad}), wire.CodeInvalidParams)
	if err := c.Start(ctx, wire.StartParams{Launch: w.launch}); err != nil {
		t.Fatal(err)
	}
	code(t, c.Start(ctx, wire.StartParams{Launch: w.launch}), wire.CodeAlreadyRunning)
	w.turn(c, `echo hello "$REEVE_ATTEMPT" "$REEVE_MISSION"; echo '@final all done'; pwd`)
	begun := data[wire.TurnStarted](t, next(t, c, wire.KindTurnStarted))
	session := data[wire.SessionStarted](t, next(t, c, wire.KindSessionStarted))
	text, fin := spoken(t, c)
	if begun.Turn != "t-1" || session.PID == 0 || session.ProviderSession != "s1" {
		t.Fatalf("%+v %+v", begun, session)
	}
	if text != "hello "+filepath.Base(w.dir)+" m-1\n"+w.folder+"\n" {
		t.Fatalf("text %q", text)
	}
	if fin.Outcome != "succeeded" || fin.Result != "all done" || fin.Next != "waiting" || fin.Ended != 0 {
		t.Fatalf("%+v", fin)
	}
	stop, err := c.Stop(ctx, wire.GuardStopParams{Reason: "person"})
	if err != nil || stop.Ended != 0 || len(stop.Left) != 0 {
		t.Fatalf("stop: %+v %v", stop, err)
	}
	end := data[wire.SessionEnded](t, next(t, c, wire.KindSessionEnded))
	if end.Reason != "person" {
		t.Fatalf("%+v", end)
	}
	<-w.proc.Done()
	if w.proc.Exit() != 0 {
		t.Fatalf("exit %d", w.proc.Exit())
	}
	if _, err := guard.Connect(ctx, w.dir); !errors.Is(err, guard.ErrGone) {
		t.Fatalf("connect to an ended guard: %v", err)
	}
}

func TestClaims(t *testing.T) {
	w, first := started(t, "fake")
	ctx := within(t)
	other := w.connect()
	_, err := other.Claim(ctx, "another token", 9)
	code(t, err, wire.CodeInvalidParams)
	for _, g := range []uint64{0, 1} {
		_, err := other.Claim(ctx, token, g)
		code(t, err, wire.CodeStaleGeneration)
	}
	code(t, other.Turn(ctx, wire.TurnParams{Command: wire.Command{Generation: 1}, Turn: "t", Prompt: "true"}), wire.CodeStaleGeneration)
	// The first claim holds until a higher one comes, which ends its connection.
	code(t, first.Interrupt(ctx, wire.InterruptParams{}), "")
	if _, err := other.Claim(ctx, token, 5); err != nil {
		t.Fatal(err)
	}
	for range first.Entries() {
	}
	if err := first.Interrupt(ctx, wire.InterruptParams{}); err == nil {
		t.Fatal("the first connection still commands")
	}
	code(t, other.Interrupt(ctx, wire.InterruptParams{Command: wire.Command{Generation: 1}}), wire.CodeStaleGeneration)
	code(t, other.Interrupt(ctx, wire.InterruptParams{}), "")
}

func TestCommandIDsRepeat(t *testing.T) {
	w, c := started(t, "fake")
	ctx := within(t)
	p := wire.TurnParams{Command: wire.Command{CommandID: "c1"}, Turn: "t-1", Number: 1, Prompt: "echo once >>ran"}
	for range 3 {
		if err := c.Turn(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	finished(t, c)
	// The next generation repeats it too, and a refusal repeats as well.
	c, _ = w.claim(2)
	if err := c.Turn(ctx, p); err != nil {
		t.Fatal(err)
	}
	_, err := c.Stop(ctx, wire.GuardStopParams{Command: p.Command})
	code(t, err, wire.CodeConflict)
	if raw, err := os.ReadFile(filepath.Join(w.folder, "ran")); err != nil || string(raw) != "once\n" {
		t.Fatalf("ran %q, %v", raw, err)
	}
}

func TestStartTimeout(t *testing.T) {
	w := spawn(t, "TEST_START=50ms")
	<-w.proc.Done()
	log := w.log()
	if len(log) != 1 || data[wire.SessionEnded](t, log[0]).Reason != "no_start" {
		t.Fatalf("%+v", log)
	}
}

func TestAdoption(t *testing.T) {
	w, c := started(t, "fake", "TEST_ADOPT=50ms")
	mkfifo(t, filepath.Join(w.folder, "go"))
	w.turn(c, `echo first; read x <go; echo last`)
	next(t, c, wire.KindTurnStarted)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	// The turn goes on without an owner, and the guard ends after it.
	if err := os.WriteFile(filepath.Join(w.folder, "go"), []byte("now\n"), 0); err != nil {
		t.Fatal(err)
	}
	<-w.proc.Done()
	log := w.log()
	n := len(log)
	if fin := data[wire.TurnFinished](t, log[n-2]); fin.Outcome != "succeeded" {
		t.Fatalf("%+v", fin)
	}
	if end := data[wire.SessionEnded](t, log[n-1]); end.Reason != "no_owner" {
		t.Fatalf("%+v", end)
	}
}

func TestFailures(t *testing.T) {
	w := spawn(t)
	w.launch.Model = "signed-out"
	c, _ := w.claim(1)
	if err := c.Start(within(t), wire.StartParams{Launch: w.launch}); err != nil {
		t.Fatal(err)
	}
	w.turn(c, "true")
	fin := finished(t, c)
	if fin.Outcome != "failed" || fin.Stage != "native_execution" || fin.Code != "authentication_required" || fin.Retryable || !strings.Contains(fin.Message, "sign") {
		t.Fatalf("%+v", fin)
	}
	_, _ = c.Stop(within(t), wire.GuardStopParams{})
	<-w.proc.Done()
	out, err := os.ReadFile(filepath.Join(w.dir, "guard.log"))
	if err != nil || !strings.Contains(string(out), "[API_KEY]") || strings.Contains(string(out), "canary") {
		t.Fatalf("guard.log: %v\n%s", err, out)
	}
}

func TestProviderDies(t *testing.T) {
	w, c := started(t, "fake")
	w.turn(c, `echo before; kill -9 $PPID`)
	if fin := finished(t, c); fin.Outcome != "failed" || fin.Code != "local_execution_failure" || !fin.Retryable {
		t.Fatalf("%+v", fin)
	}
	// It says so, and nobody asked for it: else it would be run again at once
	// and for ever.
	w.turn(c, `echo @interrupted`)
	if fin := finished(t, c); fin.Outcome != "failed" || fin.Code != "local_execution_failure" || !fin.Retryable || !strings.Contains(fin.Message, "by itself") || fin.Why != fin.Message {
		t.Fatalf("%+v", fin)
	}
	w.turn(c, `echo '@fail rate_limited'`)
	if fin := finished(t, c); fin.Outcome != "failed" || fin.Code != "rate_limited" {
		t.Fatalf("%+v", fin)
	}
}

func TestEverythingIsStored(t *testing.T) {
	const lines = 20_000
	w, c := started(t, "fake")
	w.turn(c, fmt.Sprintf(`seq %d; echo '@final x
WORK_NEXT: done'; exit 3`, lines))
	var got strings.Builder
	var last wire.Entry
	for last.Kind != wire.KindTurnFinished {
		last = next(t, c, wire.KindText, wire.KindTurnFinished)
		if last.Kind == wire.KindText {
			got.WriteString(data[wire.Text](t, last).Text)
		}
	}
	if fin := data[wire.TurnFinished](t, last); fin.Outcome != "failed" || fin.Code != "local_execution_failure" {
		t.Fatalf("%+v", fin)
	}
	all := strings.Fields(got.String())
	if all[lines-1] != fmt.Sprint(lines) || all[0] != "1" {
		t.Fatalf("%d lines, from %s to %s", len(all), all[0], all[len(all)-1])
	}
	texts := 0
	var stored strings.Builder
	for _, e := range w.log() {
		if e.Kind == wire.KindText {
			texts++
			stored.WriteString(data[wire.Text](t, e).Text)
		}
	}
	if stored.String() != got.String() {
		t.Fatal("the log and the events differ")
	}
	if texts > lines/20 {
		t.Fatalf("%d text entries for %d lines: they were not gathered", texts, lines)
	}
}

func TestLogEqualsEvents(t *testing.T) {
	w, c := started(t, "fake")
	w.turn(c, `echo "@tool 1 execute"; echo '@say <b>'; echo "@say &amp"; echo "@done 1 200000"; sleep 0.2; echo "@say after"`)
	finished(t, c)
	_, err := c.Stop(within(t), wire.GuardStopParams{})
	if err != nil {
		t.Fatal(err)
	}
	var kinds, texts []string
	var tool wire.ToolFinished
	for i, e := range w.log() {
		if e.Seq != uint64(i+1) {
			t.Fatalf("sequence %d at %d", e.Seq, i)
		}
		more := e.Kind == wire.KindText && kinds[len(kinds)-1] == wire.KindText // said late
		if !more {
			kinds = append(kinds, e.Kind)
		}
		switch {
		case more:
			texts[len(texts)-1] += data[wire.Text](t, e).Text
		case e.Kind == wire.KindText:
			texts = append(texts, data[wire.Text](t, e).Text)
		case e.Kind == wire.KindToolFinished:
			tool = data[wire.ToolFinished](t, e)
		}
	}
	want := "turn.started session.started tool.started text tool.finished text turn.finished session.ended"
	if got := strings.Join(kinds, " "); got != want {
		t.Fatalf("kinds %s\nwant  %s", got, want)
	}
	if texts[0] != "<b>&amp" {
		t.Fatalf("%q", texts)
	}
	if tool.Cut != 200_000-64<<10 || len(tool.Output) > 64<<10+16 {
		t.Fatalf("cut %d, kept %d", tool.Cut, len(tool.Output))
	}
}

func TestEventsAreTheLog(t *testing.T) {
	w, c := started(t, "fake")
	w.turn(c, `seq 300; echo "@tool 1 execute"; echo "@done 1 10"`)
	var events []wire.Entry
	for {
		e := <-c.Entries()
		events = append(events, e)
		if e.Kind == wire.KindTurnFinished {
			break
		}
	}
	log := w.log()
	if len(log) != len(events) {
		t.Fatalf("%d entries in the log, %d events", len(log), len(events))
	}
	for i := range log {
		a, _ := json.Marshal(log[i])
		b, _ := json.Marshal(events[i])
		if string(a) != string(b) {
			t.Fatalf("entry %d:\nlog   %s\nevent %s", i, a, b)
		}
	}
}

func TestOwnerComesBack(t *testing.T) {
	w, c := started(t, "fake")
	mkfifo(t, filepath.Join(w.folder, "go"))
	w.turn(c, `echo one; echo "@ask 1 execute rm x"; read a; echo "answer $a"; echo "@final $a"`)
	p := asked(t, c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c, res := w.claim(2)
	if res.Phase != "turn" || res.Turn != "t-1" || len(res.Pending) != 1 || res.Pending[0] != p.Request {
		t.Fatalf("%+v", res)
	}
	log := w.log()
	if uint64(len(log)) != res.LastSeq {
		t.Fatalf("%d entries in the log, last_seq %d", len(log), res.LastSeq)
	}
	r, err := c.Resolve(within(t), wire.ResolveParams{Request: p.Request, Digest: p.Digest, Allow: true, By: "program"})
	if err != nil || r.State != "delivered" {
		t.Fatalf("%+v %v", r, err)
	}
	seq := res.LastSeq
	for {
		e := <-c.Entries()
		if e.Seq != seq+1 {
			t.Fatalf("entry %d follows %d", e.Seq, seq)
		}
		seq = e.Seq
		if e.Kind == wire.KindTurnFinished {
			if fin := data[wire.TurnFinished](t, e); fin.Result != "yes" {
				t.Fatalf("%+v", fin)
			}
			return
		}
	}
}

// escapees is a script whose children leave in every usual way.
const escapees = `
sleep 300 & echo $! >plain
setsid sleep 301 & echo $! >session
setsid sh -c 'trap "" INT TERM; sleep 302 & echo $! >double; exec sleep 303' &
while [ ! -s double ]; do :; done
(setsid sh -c 'echo $$ >orphan; exec sleep 304' &)
while [ ! -s orphan ]; do :; done
echo ready
`

var escaped = []string{"plain", "session", "double", "orphan"}

func (w *worker) escape(c *guard.Client, then string) []proc.ID {
	w.t.Helper()
	mkfifo(w.t, filepath.Join(w.folder, "go"))
	w.turn(c, escapees+"read x <go\n"+then)
	next(w.t, c, wire.KindText)
	var ids []proc.ID
	for _, name := range escaped {
		ids = append(ids, w.pidIn(name))
	}
	return ids
}

func TestNothingSurvivesATurn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"fake", "fake-keep"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c := started(t, name)
			ids := w.escape(c, "exit 0")
			if err := os.WriteFile(filepath.Join(w.folder, "go"), []byte("\n"), 0); err != nil {
				t.Fatal(err)
			}
			fin := finished(t, c)
			if fin.Outcome != "succeeded" || fin.Ended < 4 || len(fin.Left) > 0 {
				t.Fatalf("%+v", fin)
			}
			for i, id := range ids {
				if id.State() == proc.Alive {
					t.Errorf("%s survived the turn", escaped[i])
				}
			}
			w.turn(c, "echo again")
			if fin := finished(t, c); fin.Outcome != "succeeded" || fin.Ended != 0 {
				t.Fatalf("%+v", fin)
			}
			opened := 0
			for _, e := range w.log() {
				if e.Kind == wire.KindSessionStarted {
					opened++
				}
			}
			if want := map[string]int{"fake": 2, "fake-keep": 1}[name]; opened != want {
				t.Fatalf("the provider was opened %d times, want %d", opened, want)
			}
		})
	}
}

func TestNothingSurvivesTheGuard(t *testing.T) {
	t.Parallel()
	kill := func(which func(wire.GuardRecord) wire.Process, sig os.Signal) func(*testing.T, *worker, *guard.Client) {
		return func(t *testing.T, w *worker, c *guard.Client) {
			if err := proc.ID(which(c.Record)).Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	inner := func(r wire.GuardRecord) wire.Process { return r.Process }
	keeper := func(r wire.GuardRecord) wire.Process { return r.Keeper }
	for name, end := range map[string]func(*testing.T, *worker, *guard.Client){
		"stop": func(t *testing.T, w *worker, c *guard.Client) {
			res, err := c.Stop(within(t), wire.GuardStopParams{Reason: "person"})
			if err != nil || res.Ended < 4 || len(res.Left) > 0 {
				t.Fatalf("%+v %v", res, err)
			}
			if fin := finished(t, c); fin.Outcome != "interrupted" || fin.Code != "" {
				t.Fatalf("%+v", fin)
			}
		},
		"guard terminated":  kill(inner, syscall.SIGTERM),
		"guard killed":      kill(inner, syscall.SIGKILL),
		"keeper terminated": kill(keeper, syscall.SIGTERM),
		"keeper killed":     kill(keeper, syscall.SIGKILL),
		"unadopted": func(t *testing.T, w *worker, c *guard.Client) {
			_ = c.Close()
			n, err := guard.EndUnadopted(within(t), w.dir)
			if err != nil || n != 2 {
				t.Fatalf("ended %d, %v", n, err)
			}
			if n, err := guard.EndUnadopted(within(t), w.dir); n != 0 || err != nil {
				t.Fatalf("ended %d again, %v", n, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c := started(t, "fake")
			ids := w.escape(c, "")
			end(t, w, c)
			for i, id := range ids {
				ends(t, escaped[i], id)
			}
			ends(t, "the guard", proc.ID(c.Record.Process))
			ends(t, "the keeper", proc.ID(c.Record.Keeper))
		})
	}
}

func TestEndUnadoptedTouchesNobodyElse(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	other := wire.Process(self)
	other.Start++ // the pid was used again
	raw, err := json.Marshal(wire.GuardRecord{Process: other, Keeper: other})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "guard.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := guard.EndUnadopted(within(t), dir); n != 0 || err != nil {
		t.Fatalf("ended %d, %v", n, err)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"fake", "fake-deaf", "fake-keep"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c := started(t, name)
			w.turn(c, `trap '' INT TERM; echo begun; sleep 300`)
			next(t, c, wire.KindText)
			if err := c.Interrupt(within(t), wire.InterruptParams{Reason: "pause"}); err != nil {
				t.Fatal(err)
			}
			if fin := finished(t, c); fin.Outcome != "interrupted" || fin.Code != "" || fin.Stage != "" {
				t.Fatalf("%+v", fin)
			}
			if name == "fake-keep" {
				return // its shell still holds the script
			}
			w.turn(c, `echo again`)
			if fin := finished(t, c); fin.Outcome != "succeeded" {
				t.Fatalf("%+v", fin)
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	hour := time.Hour
	for name, shift := range map[string][2]time.Duration{
		"sleep":            {hour, hour},
		"clock set back":   {-hour, 31 * time.Minute},
		"clock set onward": {hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c := started(t, "fake")
			w.turn(c, `echo "@ask 1 execute rm x"; read a; echo "answer $a"; sleep 300`)
			p := asked(t, c)
			w.shift(shift[0], shift[1])
			r := data[wire.PermissionResolved](t, next(t, c, wire.KindPermissionResolved))
			if r.Request != p.Request || r.Outcome != "expired" || r.By != "deadline" {
				t.Fatalf("%+v", r)
			}
			if fin := finished(t, c); fin.Outcome != "timed_out" {
				t.Fatalf("%+v", fin)
			}
			if end := data[wire.SessionEnded](t, next(t, c, wire.KindSessionEnded)); end.Reason != "deadline" || len(end.Left) > 0 {
				t.Fatalf("%+v", end)
			}
			code(t, c.Turn(within(t), wire.TurnParams{Turn: "t-9", Prompt: "true"}), wire.CodeDeadlinePassed)
			res, err := c.Resolve(within(t), wire.ResolveParams{Request: p.Request, Digest: p.Digest, Allow: true})
			if err != nil || res.State != "gone" {
				t.Fatalf("%+v %v", res, err)
			}
			_ = c.Close()
			<-w.proc.Done()
		})
	}
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		w, c := started(t, "fake-deaf")
		w.turn(c, `trap '' INT TERM; echo begun; sleep 300`)
		next(t, c, wire.KindText)
		_ = c.Close()
		w.shift(hour, hour)
		<-w.proc.Done()
		log := w.log()
		if end := log[len(log)-1]; end.Kind != wire.KindSessionEnded {
			t.Fatalf("%+v", end)
		}
	})
}

// Whatever prints without end is ended before it fills the disk.
func TestTranscriptLimit(t *testing.T) {
	w, c := started(t, "fake", "TEST_MAXLOG=1ms") // a million bytes
	w.turn(c, "yes")
	fin := finished(t, c)
	end := data[wire.SessionEnded](t, next(t, c, wire.KindSessionEnded))
	if end.Reason != guard.ReasonFull || fin.Outcome == "succeeded" {
		t.Errorf("the turn %s, the end %s", fin.Outcome, end.Reason)
	}
	info, err := os.Stat(filepath.Join(w.dir, "log"))
	if err != nil || info.Size() > 4<<20 {
		t.Errorf("the log has %d bytes, %v", info.Size(), err)
	}
	select {
	case <-w.proc.Done():
	case <-within(t).Done():
		t.Error("the guard goes on")
	}
}
