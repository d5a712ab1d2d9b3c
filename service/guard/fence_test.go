//go:build unix

package guard_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
	"github.com/reevehq/reeve/service/internal/proc"
)

// No command of an older generation takes effect, in whatever order claims and
// commands come and over whichever connection.
func TestFence(t *testing.T) {
	w := spawn(t)
	var clients []*guard.Client
	owner, generation := -1, uint64(0) // the model
	var effects []string
	begun := false
	n := 0
	claim := func(t *rapid.T) {
		i := len(clients)
		if i > 0 && rapid.Bool().Draw(t, "old connection") {
			i = rapid.IntRange(max(0, i-3), i-1).Draw(t, "connection")
		} else {
			clients = append(clients, w.connect())
		}
		next := max(1, generation+2) - rapid.Uint64Range(0, min(3, max(1, generation+2)-1)).Draw(t, "lower by")
		_, err := clients[i].Claim(within(w.t), token, next)
		switch {
		case next > generation && err == nil:
			owner, generation = i, next
		case next > generation && clients[i].Err() != nil || err != nil && wire.CodeOf(err) == wire.CodeInternal:
			// The connection had been closed by a later claim.
			if i == owner {
				t.Fatalf("the owner's connection is gone: %v", err)
			}
		case wire.CodeOf(err) != wire.CodeStaleGeneration:
			t.Fatalf("claim %d after %d: %v", next, generation, err)
		}
	}
	command := func(t *rapid.T) {
		if len(clients) == 0 {
			t.Skip("no connection yet")
		}
		i := rapid.IntRange(max(0, len(clients)-4), len(clients)-1).Draw(t, "connection")
		as := rapid.Uint64Range(max(1, generation-min(generation, 3)), generation+1).Draw(t, "generation")
		cmd := wire.Command{Generation: as}
		if !begun {
			if clients[i].Start(within(w.t), wire.StartParams{Command: cmd, Launch: w.launch}) == nil {
				begun = true
				if i != owner || as != generation {
					t.Fatalf("connection %d as %d started; the owner is %d as %d", i, as, owner, generation)
				}
			}
			return
		}
		n++
		mark := fmt.Sprintf("%d-%d", n, as)
		err := clients[i].Turn(within(w.t), wire.TurnParams{Command: cmd, Turn: "t-" + mark, Number: n, Prompt: "echo " + mark + " >>effects"})
		may := i == owner && as == generation
		if (err == nil) != may {
			t.Fatalf("turn over connection %d as %d: %v; the owner is %d as %d", i, as, err, owner, generation)
		}
		if may {
			effects = append(effects, mark)
			for e := range clients[i].Entries() {
				if e.Kind == wire.KindTurnFinished {
					break
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		t.Repeat(map[string]func(*rapid.T){"claim": claim, "command": command, "command again": command})
		if len(clients) > 8 {
			for i, c := range clients[:len(clients)-6] {
				if i != owner {
					_ = c.Close()
				}
			}
		}
	})
	raw, _ := os.ReadFile(filepath.Join(w.folder, "effects"))
	if got := strings.Fields(string(raw)); strings.Join(got, " ") != strings.Join(effects, " ") {
		t.Fatalf("effects %v\nwant    %v", got, effects)
	}
	t.Logf("%d turns of %d commands, generation %d", len(effects), n, generation)
}

func dial(t *testing.T, w *worker) net.Conn {
	t.Helper()
	rec := w.connect().Record
	conn, err := sock.Dial(within(t), rec.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func send(t *testing.T, conn net.Conn, method string, params any) {
	t.Helper()
	raw, err := wire.Encode(params)
	if err != nil {
		t.Fatal(err)
	}
	line, err := wire.Encode(wire.Request{Version: 1, ID: method, Method: method, Params: raw})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(line); err != nil {
		t.Fatal(err)
	}
}

// An owner that reads nothing while a provider floods it holds nobody up, and
// gets every entry when it reads again, on the same connection.
func TestAnOwnerThatDoesNotRead(t *testing.T) {
	const lines = 900_000
	w := spawn(t)
	conn := dial(t, w)
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	cmd := wire.Command{Generation: 1}
	send(t, conn, wire.GuardClaim, wire.ClaimParams{Token: token, Generation: 1, Owner: wire.Process(self)})
	cmd.CommandID = "a"
	send(t, conn, wire.GuardStart, wire.StartParams{Command: cmd, Launch: w.launch})
	cmd.CommandID = "b"
	mkfifo(t, filepath.Join(w.folder, "go"))
	send(t, conn, wire.GuardTurn, wire.TurnParams{Command: cmd, Turn: "t-1", Number: 1, Prompt: fmt.Sprintf("seq %d; read x <go", lines)})
	// Once everything was printed the guard has taken it without its owner.
	if err := os.WriteFile(filepath.Join(w.folder, "go"), []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	in := wire.NewLineReader(conn)
	var seq uint64
	for ended := false; !ended; {
		line, err := in.Next()
		if err != nil {
			t.Fatalf("after entry %d: %v", seq, err)
		}
		var m struct {
			Event string     `json:"event"`
			Data  wire.Entry `json:"data"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		if m.Event == "" {
			continue // an answer
		}
		if m.Data.Seq != seq+1 {
			t.Fatalf("entry %d follows %d", m.Data.Seq, seq)
		}
		seq, ended = m.Data.Seq, m.Data.Kind == wire.KindTurnFinished
	}
	if all := w.log(); uint64(len(all)) != seq {
		t.Errorf("%d entries came of %d", seq, len(all))
	}
	// It commands as before.
	cmd.CommandID = "c"
	send(t, conn, wire.GuardStop, wire.GuardStopParams{Command: cmd, Reason: "person"})
	if _, err := in.Next(); err != nil {
		t.Error(err)
	}
}

func TestMalformedCommands(t *testing.T) {
	w, c := started(t, "fake")
	long := strings.Repeat("a", wire.MaxLine+1)
	for name, line := range map[string]string{
		"too long":       long,
		"NUL":            "{\"version\":1,\"id\":\"1\x00\",\"method\":\"guard.claim\"}",
		"binary":         "\xff\xfe\x00\x01",
		"no object":      `[1]`,
		"no such method": `{"version":1,"id":"1","method":"guard.dance","params":{"command_id":"x"}}`,
		"wrong type":     `{"version":1,"id":"1","method":"guard.claim","params":{"token":7}}`,
		"no claim":       `{"version":1,"id":"1","method":"guard.stop","params":{"generation":1,"command_id":"x"}}`,
		"wrong version":  `{"version":7,"id":"1","method":"guard.claim"}`,
	} {
		conn := dial(t, w)
		if _, err := conn.Write([]byte(line + "\n")); err != nil && name != "too long" {
			t.Fatalf("%s: %v", name, err)
		}
		answer, err := bufio.NewReader(conn).ReadString('\n')
		if name == "too long" {
			if err == nil {
				t.Errorf("too long: %s", answer)
			}
		} else if err != nil || !strings.Contains(answer, `"ok":false`) {
			t.Errorf("%s: %q %v", name, answer, err)
		}
		_ = conn.Close()
	}
	code(t, c.Interrupt(within(t), wire.InterruptParams{}), "")
}

// A provider whose identity can't be put on record does not live.
func TestUnrecordedProviderIsStopped(t *testing.T) {
	w, c := started(t, "fake")
	if err := os.MkdirAll(filepath.Join(w.dir, "provider.json", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.turn(c, "echo ran >ran")
	if fin := finished(t, c); fin.Outcome != "failed" || fin.Code != "private_state_failure" {
		t.Fatalf("%+v", fin)
	}
	if _, err := os.Stat(filepath.Join(w.folder, "ran")); err == nil {
		t.Fatal("the provider ran")
	}
	out, err := exec.Command("pgrep", "-P", fmt.Sprint(c.Record.PID)).Output()
	if err == nil {
		t.Fatalf("the guard still has children: %s", out)
	}
}
