package conform_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/mcp"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
	"github.com/reevehq/reeve/service/provider/modelstub"
)

// ours is the argument that makes the test program reeve mcp.
const ours = "mcp"

func serveOurs() error {
	return mcp.Serve(context.Background(), mcp.Options{In: os.Stdin, Out: os.Stdout, Getenv: os.Getenv, Version: "1", Log: slog.New(slog.DiscardHandler)})
}

// colours is the question of all columns that ask by a tool of Reeve's own.
var colours = map[string]any{"question": "Which colour?", "options": []string{"red", "blue"}}

// desk takes the place of the service for reeve mcp. A question that is put on it
// waits for a person.
type desk struct {
	t        *testing.T
	asked    chan map[string]any
	answered chan string
	over     chan struct{}
	l        *sock.Listener
	wg       sync.WaitGroup
}

// desk gives the session Reeve's own server.
func (w *world) desk() *desk {
	w.t.Helper()
	d := &desk{t: w.t, asked: make(chan map[string]any, 8), answered: make(chan string), over: make(chan struct{})}
	path := filepath.Join(w.home, "run", "s")
	var err error
	if d.l, err = sock.Listen(path); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		close(d.over)
		d.l.Close()
		d.wg.Wait()
	})
	d.wg.Go(func() {
		for {
			nc, err := d.l.Accept()
			if err != nil {
				return
			}
			d.wg.Go(func() { d.serve(nc) })
			d.wg.Go(func() { <-d.over; nc.Close() })
		}
	})
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	w.spec.Servers = append(w.spec.Servers, provider.Server{Name: "reeve", Command: exe, Args: []string{ours}, Question: wire.MCPAskQuestion, Env: []string{
		"REEVE_SUPERVISOR_ENTRY_ID=m-1", "REEVE_SUPERVISOR_DAEMON_SOCKET=" + path, "REEVE_SUPERVISOR_WORK_ATTEMPT_ID=a-1",
		"REEVE_SUPERVISOR_EXECUTION_GENERATION_ID=x-1", "REEVE_SUPERVISOR_ROOM_ID=r-1", "REEVE_EXECUTION_PROFILE=supervised_room_turn",
	}})
	return d
}

func (d *desk) serve(nc net.Conn) {
	defer nc.Close()
	var writing sync.Mutex
	for lines := wire.NewLineReader(nc); ; {
		line, err := lines.Next()
		if err != nil {
			return
		}
		req, bad := wire.DecodeRequest(line)
		if bad != nil {
			d.t.Errorf("a line that is no request: %s", line)
			return
		}
		d.wg.Go(func() {
			raw, err := json.Marshal(d.answer(req))
			if err == nil {
				raw, err = wire.Encode(wire.Response{Version: req.Version, ID: req.ID, OK: true, Result: raw})
			}
			if err != nil {
				d.t.Error(err)
				return
			}
			writing.Lock()
			defer writing.Unlock()
			nc.Write(raw) // who asked may be gone
		})
	}
}

func (d *desk) answer(req wire.Request) any {
	var p struct {
		Tool  string         `json:"tool_name"`
		Input map[string]any `json:"input"`
	}
	json.Unmarshal(req.Params, &p) // some have neither
	switch req.Method {
	case wire.MethodNegotiate:
		return wire.NegotiateResult{ProtocolVersion: 2, Generation: 1, PID: 10, StartedAt: time.Unix(1, 0), AppVersion: "1"}
	case wire.MethodPrepareEffect:
		return wire.PrepareResult{State: wire.EffectPrepared, Action: wire.ActionExecute, Effect: "e-1", Room: "r-1"}
	case wire.MethodExecuteTool:
		d.asked <- p.Input
		var said string
		select {
		case said = <-d.answered:
		case <-d.over:
		}
		raw, _ := json.Marshal(map[string]any{"answered": true, "answer": said})
		return wire.ToolResult{Room: "r-1", Result: raw}
	}
	return wire.CompleteResult{Effect: "e-1", Room: "r-1"}
}

// next is what the agent asks.
func (d *desk) next() map[string]any {
	d.t.Helper()
	select {
	case in := <-d.asked:
		return in
	case <-time.After(8 * time.Minute):
		d.t.Error("nothing was asked")
		return nil
	}
}

// questionByTool is question for an agent that can ask only by Reeve's own server.
// It is held as long as a permission is, nothing else is asked for it where that
// can be had, and with an interrupt it is over.
func questionByTool(t *testing.T, w *world) {
	d := w.desk()
	s := w.open()
	unasked := func(ev provider.Event) {
		if e, ok := ev.(provider.PermissionRequested); ok {
			if w.c.binary != "" {
				t.Errorf("asked for %+v", e)
			}
			s.Answer(e, provider.Answer{Allow: w.c.binary == ""})
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		in := d.next()
		if options, _ := json.Marshal(in["options"]); in["question"] != "Which colour?" || string(options) != `["red","blue"]` {
			t.Errorf("asked %v", in)
		}
		<-time.After(hold()) // a person thinks
		select {
		case d.answered <- "blue":
		case <-time.After(time.Minute):
			t.Error("nobody waits for the answer")
		}
	})
	turn := s.Do(w.c.question, unasked)
	wg.Wait()
	w.want(turn, mission.Succeeded, "")
	if got := strings.Join(w.results(), "\n"); w.c.binary != "" && !strings.Contains(got, "blue") {
		t.Errorf("the model heard %q", got)
	}
	if done := conform.Of[provider.ToolFinished](turn); len(done) != 1 || done[0].Status != "ok" || !strings.Contains(done[0].Output, "blue") {
		t.Errorf("finished %+v", done)
	}

	wg.Go(func() {
		d.next()
		if err := s.Conn.Interrupt(context.Background()); err != nil {
			t.Error(err)
		}
	})
	turn = s.Do(w.c.question, unasked)
	wg.Wait()
	w.want(turn, mission.Interrupted, "")
}

// offers says whether the model was ever offered a tool whose name ends in name.
func (w *world) offers(name string) bool {
	return slices.ContainsFunc(w.asked(), func(r modelstub.Request) bool {
		return slices.ContainsFunc(r.Tools, func(tool string) bool { return strings.HasSuffix(tool, name) })
	})
}
