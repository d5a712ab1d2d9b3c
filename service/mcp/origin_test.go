package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func without(names ...string) func(map[string]string) {
	return func(env map[string]string) {
		for _, n := range names {
			delete(env, "REEVE_"+n)
		}
	}
}

var four = []string{"SUPERVISOR_ENTRY_ID", "SUPERVISOR_DAEMON_SOCKET", "SUPERVISOR_WORK_ATTEMPT_ID", "SUPERVISOR_EXECUTION_GENERATION_ID"}

const (
	goodContext = `{"version":1,"provider":"codex","entry_id":"m-9","room_id":"r-9","work_attempt_id":"a-9","execution_generation_id":"x-9","agent_session_id":"s-9","agent_display_name":"Codex","socket":"/tmp/evil"}`
	goodMarker  = `{"version":1,"work_attempt_id":"a-9"}`
)

// read gives what an environment and files of a checkout name.
func read(t *testing.T, change func(map[string]string), files map[string]string) (*origin, worker, error) {
	t.Helper()
	env := environment("/run/env.sock")
	if change != nil {
		change(env)
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := &origin{getenv: func(k string) string { return env[k] }, dir: dir, socket: func() (string, error) { return "/run/own.sock", nil }}
	w, err := o.worker()
	return o, w, err
}

func TestEnvironment(t *testing.T) {
	files := map[string]string{contextFile: goodContext, markerFile: goodMarker}
	_, w, err := read(t, nil, files)
	if err != nil || w.Entry != "m-1" || w.Attempt != "a-1" || w.Execution != "x-1" || w.Turn != "t-1" || w.socket != "/run/env.sock" || w.room != "r-1" || w.session != "s-1" || !w.effects || !w.borrows {
		t.Errorf("%+v, %v", w, err)
	}
	// A part of the four is an error and never completed from elsewhere, even
	// for Codex with a context file.
	codex := func(env map[string]string) { env["REEVE_SUPERVISOR_PROVIDER"] = "codex" }
	for n := 1; n < 1<<len(four)-1; n++ {
		var gone []string
		for i, name := range four {
			if n&(1<<i) != 0 {
				gone = append(gone, name)
			}
		}
		_, w, err := read(t, func(env map[string]string) { codex(env); without(gone...)(env) }, files)
		if err == nil {
			t.Errorf("without %v: %+v", gone, w)
		} else if !strings.Contains(err.Error(), "REEVE_"+gone[0]) {
			t.Errorf("without %v: %v", gone, err)
		}
	}
	for api, ok := range map[string]bool{
		"https://example.org/x": true, "http://localhost:3": true, "http://127.0.0.1:1": true, "http://[::1]:9": true, "": true,
		"http://example.org": false, "http://127.0.0.2": false, "http://localhost.example.org": false, "file:///x": false, "https://": false, "%": false,
	} {
		if _, _, err := read(t, func(env map[string]string) { env["REEVE_API_URL"] = api }, nil); (err == nil) != ok {
			t.Errorf("api %q: %v", api, err)
		}
	}
}

func TestContextFile(t *testing.T) {
	// As Codex starts it: nothing but what says that its turns are supervised.
	bare := func(env map[string]string) {
		without(append(four, "SUPERVISOR_PROVIDER_TURN_ID", "SUPERVISOR_AGENT_SESSION_ID", "SUPERVISOR_ROOM_ID", "SUPERVISOR_PROVIDER")...)(env)
	}
	o, w, err := read(t, bare, map[string]string{contextFile: goodContext, markerFile: goodMarker})
	if err != nil || w.Entry != "m-9" || w.Attempt != "a-9" || w.Execution != "x-9" || w.Turn != "" || w.room != "r-9" || w.session != "s-9" {
		t.Fatalf("%+v, %v", w, err)
	}
	if w.socket != "/run/own.sock" {
		t.Errorf("the socket is %s", w.socket)
	}
	// It is read each time, and once it is gone the run is over.
	if err := os.Remove(filepath.Join(o.dir, contextFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := o.worker(); err == nil || !strings.Contains(err.Error(), "is over") {
		t.Errorf("a file that went: %v", err)
	}

	set := func(name, value string) func(map[string]string) {
		return func(env map[string]string) { bare(env); env["REEVE_"+name] = value }
	}
	with := func(old, new string) string { return strings.Replace(goodContext, old, new, 1) }
	for name, c := range map[string]struct {
		env             func(map[string]string)
		context, marker string
		says            string
	}{
		"none":                    {bare, "", "", "neither"},
		"another provider's":      {set("SUPERVISOR_PROVIDER", "claude-code"), goodContext, goodMarker, "names no worker"},
		"codex, as it says":       {set("SUPERVISOR_PROVIDER", "codex"), goodContext, goodMarker, ""},
		"of another provider":     {bare, with(`"codex"`, `"claude-code"`), goodMarker, "only codex"},
		"of another version":      {bare, with(`"version":1`, `"version":2`), goodMarker, "only 1 is known"},
		"marker's version":        {bare, goodContext, `{"version":2,"work_attempt_id":"a-9"}`, "only 1 is known"},
		"no marker":               {bare, goodContext, "", markerFile},
		"another attempt":         {bare, goodContext, `{"version":1,"work_attempt_id":"a-8"}`, "another attempt"},
		"another room":            {set("SUPERVISOR_ROOM_ID", "r-8"), goodContext, goodMarker, "another room"},
		"the same room":           {set("SUPERVISOR_ROOM_ID", "r-9"), goodContext, goodMarker, ""},
		"another session":         {set("SUPERVISOR_AGENT_SESSION_ID", "s-8"), goodContext, goodMarker, "another session"},
		"no entry":                {bare, with(`"m-9"`, `""`), goodMarker, "no whole worker"},
		"no execution":            {bare, with(`"x-9"`, `""`), goodMarker, "no whole worker"},
		"a room with a newline":   {bare, with(`"r-9"`, `"r\n9"`), goodMarker, "no whole worker"},
		"not JSON":                {bare, "hello", goodMarker, "holds no context"},
		"4,096 bytes":             {bare, goodContext + strings.Repeat(" ", maxFile-len(goodContext)), goodMarker, ""},
		"4,097 bytes":             {bare, goodContext + strings.Repeat(" ", maxFile+1-len(goodContext)), goodMarker, "longer than 4096"},
		"marker of 4,097 bytes":   {bare, goodContext, goodMarker + strings.Repeat(" ", maxFile), "longer than 4096"},
		"an API URL elsewhere":    {set("API_URL", "http://example.org"), goodContext, goodMarker, "API_URL"},
		"nothing of a supervised": {func(env map[string]string) { clear(env) }, goodContext, goodMarker, ""},
	} {
		files := map[string]string{}
		if c.context != "" {
			files[contextFile] = c.context
		}
		if c.marker != "" {
			files[markerFile] = c.marker
		}
		_, w, err := read(t, c.env, files)
		if c.says == "" {
			if err != nil || w.Entry != "m-9" {
				t.Errorf("%s: %+v, %v", name, w, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestContextLinks: what a link leads to is not the worker's context.
func TestContextLinks(t *testing.T) {
	for _, name := range []string{contextFile, markerFile} {
		elsewhere := filepath.Join(t.TempDir(), "f")
		text := map[string]string{contextFile: goodContext, markerFile: goodMarker}
		if err := os.WriteFile(elsewhere, []byte(text[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		delete(text, name)
		env := map[string]string{}
		dir := t.TempDir()
		for n, c := range text {
			if err := os.WriteFile(filepath.Join(dir, n), []byte(c), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		o := &origin{getenv: func(k string) string { return env[k] }, dir: dir, socket: func() (string, error) { return "/s", nil }}
		if err := os.Symlink(elsewhere, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
		if _, err := o.worker(); err == nil || !strings.Contains(err.Error(), "is a link or no") {
			t.Errorf("a symbolic link %s: %v", name, err)
		}
		_ = os.Remove(filepath.Join(dir, name))
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := o.worker(); err == nil || !strings.Contains(err.Error(), "is a link or no") {
			t.Errorf("a directory %s: %v", name, err)
		}
		_ = os.Remove(filepath.Join(dir, name))
		if err := os.Link(elsewhere, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
		if _, err := o.worker(); err == nil || !strings.Contains(err.Error(), "is a link or no") {
			t.Errorf("a hard link %s: %v", name, err)
		}
	}
}
