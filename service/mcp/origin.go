package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/reevehq/reeve/ipc/wire"
)

// Files in the checkout of a Codex worker, whose MCP servers may get no
// environment: for whom they speak, and the attempt that the guard vouches for.
const (
	contextFile = ".reeve-supervisor-context.json"
	markerFile  = ".reeve-work-attempt.json"
	maxFile     = 4 << 10
)

// worker is for whom the bridge speaks, and where.
type worker struct {
	wire.Coordinates
	socket  string
	room    string
	session string
	apiURL  string
	effects bool // its turns are supervised, so it may have effects
	borrows bool // it may borrow its session's credential
	// hold is how long a call may take that asks the person a question, 0 where
	// the agent has a way of its own to ask.
	hold time.Duration
}

// origin is where the coordinates come from: whole from the environment, or for
// Codex whole from its context file. They are never mixed.
type origin struct {
	getenv func(string) string
	dir    string
	socket func() (string, error)
	used   bool // the context file was read once
}

func (o *origin) env(name string) string { return o.getenv("REEVE_" + name) }

// worker reads the coordinates anew: a context file may be gone since.
func (o *origin) worker() (worker, error) {
	w := worker{
		Coordinates: wire.Coordinates{
			Entry: o.env("SUPERVISOR_ENTRY_ID"), Attempt: o.env("SUPERVISOR_WORK_ATTEMPT_ID"),
			Execution: o.env("SUPERVISOR_EXECUTION_GENERATION_ID"), Turn: o.env("SUPERVISOR_PROVIDER_TURN_ID"),
		},
		socket: o.env("SUPERVISOR_DAEMON_SOCKET"), room: o.env("SUPERVISOR_ROOM_ID"), session: o.env("SUPERVISOR_AGENT_SESSION_ID"),
		apiURL:  o.env("API_URL"),
		effects: o.env("EXECUTION_PROFILE") == "supervised_room_turn", borrows: o.env("SUPERVISED_BOUNDED_TURNS") == "1",
	}
	if seconds, err := strconv.ParseUint(o.env("QUESTIONS"), 10, 20); err == nil {
		w.hold = time.Duration(seconds) * time.Second
	}
	var missing []string
	for _, v := range []struct{ name, value string }{
		{"ENTRY_ID", w.Entry}, {"DAEMON_SOCKET", w.socket}, {"WORK_ATTEMPT_ID", w.Attempt}, {"EXECUTION_GENERATION_ID", w.Execution},
	} {
		if v.value == "" {
			missing = append(missing, "REEVE_SUPERVISOR_"+v.name)
		}
	}
	switch len(missing) {
	case 0:
	case 4:
		if err := o.fromFile(&w); err != nil {
			return worker{}, err
		}
	default:
		return worker{}, fmt.Errorf("the environment names no whole worker: %s not set; only Reeve's guard starts this program", strings.Join(missing, ", "))
	}
	if w.apiURL != "" {
		if _, ok := wire.Origin(w.apiURL); !ok {
			return worker{}, errors.New("REEVE_API_URL must be https, or http to localhost, 127.0.0.1 or ::1")
		}
	}
	return w, nil
}

// fromFile completes w from the context file. The socket is the user's own:
// a file in a checkout names none.
func (o *origin) fromFile(w *worker) error {
	if p := o.env("SUPERVISOR_PROVIDER"); p != "" && p != "codex" {
		return errors.New("the environment names no worker: REEVE_SUPERVISOR_ENTRY_ID and what belongs to it is not set; only Reeve's guard starts this program")
	}
	var c struct {
		Version  int    `json:"version"`
		Provider string `json:"provider"`
		Entry    string `json:"entry_id"`
		Room     string `json:"room_id"`
		Attempt  string `json:"work_attempt_id"`
		Exec     string `json:"execution_generation_id"`
		Session  string `json:"agent_session_id"`
	}
	var m struct {
		Version int    `json:"version"`
		Attempt string `json:"work_attempt_id"`
	}
	name := filepath.Join(o.dir, contextFile)
	err := readPrivate(name, &c)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.used:
		return fmt.Errorf("%s is gone: this worker's run is over", name)
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("no worker is named, neither by the environment nor by a context file; only Reeve's guard starts this program")
	case err != nil:
		return err
	}
	if err := readPrivate(filepath.Join(o.dir, markerFile), &m); err != nil {
		return err
	}
	switch {
	case c.Version != 1 || m.Version != 1:
		return fmt.Errorf("%s is of version %d and its marker of %d, and only 1 is known; use one release of Reeve", name, c.Version, m.Version)
	case c.Provider != "codex":
		return fmt.Errorf("%s is for the provider %q, and only codex uses one", name, c.Provider)
	case c.Entry == "" || c.Attempt == "" || c.Exec == "" || !validRoom(c.Room):
		return fmt.Errorf("%s names no whole worker", name)
	case c.Attempt != m.Attempt:
		return fmt.Errorf("%s is of another attempt than its marker; start the mission again", name)
	case w.room != "" && w.room != c.Room:
		return fmt.Errorf("%s is for another room than the environment", name)
	case w.session != "" && c.Session != "" && w.session != c.Session:
		return fmt.Errorf("%s is for another session than the environment", name)
	}
	if w.socket, err = o.socket(); err != nil {
		return err
	}
	w.Entry, w.Attempt, w.Execution, w.room = c.Entry, c.Attempt, c.Exec, c.Room
	if c.Session != "" {
		w.session = c.Session
	}
	o.used = true
	return nil
}

// readPrivate decodes a small regular file that is no link.
func readPrivate(name string, into any) error {
	before, err := os.Lstat(name)
	if err != nil {
		return fmt.Errorf("read the worker's context: %w", err)
	}
	if !before.Mode().IsRegular() || !oneName(before) {
		return fmt.Errorf("%s is a link or no regular file, so it is not Reeve's; remove it", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read the worker's context: %w", err)
	}
	defer f.Close()
	// What was opened is what was looked at, and no link that took its place.
	if now, err := f.Stat(); err != nil || !os.SameFile(before, now) {
		return fmt.Errorf("%s was replaced while it was read; try again", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if len(b) > maxFile {
		return fmt.Errorf("%s is longer than %d bytes, so it is not Reeve's; remove it", name, maxFile)
	}
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(into); err != nil {
		return fmt.Errorf("%s holds no context: %w", name, err)
	}
	return nil
}

// validRoom holds what the service calls a room to the protocol.
func validRoom(room string) bool {
	n := utf8.RuneCountInString(room)
	return n >= 1 && n <= 1024 && utf8.ValidString(room) && !strings.ContainsFunc(room, unicode.IsControl)
}
