package agents

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/reevehq/reeve/service/internal/private"
)

func state(t *testing.T) *File {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := private.EnsureDir(dir); err != nil {
		t.Fatal(err)
	}
	return In(dir)
}

func TestAddAndRemove(t *testing.T) {
	f := state(t)
	if list, err := f.Agents(); err != nil || list != nil {
		t.Fatalf("without a file: %v, %v", list, err)
	}
	e := Entry{Name: "mine", Title: "Mine", Command: "my-agent", Args: []string{"--acp", ""}, Env: map[string]string{"B": "2", "A": "1"}, Pass: []string{"OPENAI_API_KEY"}, Mode: "ask"}
	if bad := e.Check(); bad != nil {
		t.Fatal(bad)
	}
	if err := f.Add(e); err != nil {
		t.Fatal(err)
	}
	if err := f.Add(e); !errors.Is(err, ErrTaken) {
		t.Errorf("added twice: %v", err)
	}
	if err := private.Check(f.Path()); err != nil {
		t.Error(err)
	}
	list, err := In(filepath.Dir(f.Path())).Agents()
	if err != nil || len(list) != 1 || list[0].Mode != "ask" || !slices.Equal(list[0].Args, e.Args) {
		t.Fatalf("%+v, %v", list, err)
	}
	p := list[0].Provider()
	found := p.Probe(t.Context(), nil)
	if p.Name() != "acp:mine" || p.Title() != "Mine" || len(p.Variables()) != 1 || !p.Variables()[0].Secret ||
		found.Mode != "ask" || !slices.Equal(found.Fixed, []string{"A=1", "B=2"}) || len(found.Notes) != 1 {
		t.Errorf("%s %s %+v %+v", p.Name(), p.Title(), p.Variables(), found)
	}
	other := e
	other.Name, other.Command = "other", "another-agent"
	if err := f.Replace(other); !errors.Is(err, ErrNone) {
		t.Errorf("replaced nothing: %v", err)
	}
	e.Command = "my-agent-2"
	if err := f.Replace(e); err != nil {
		t.Fatal(err)
	}
	if list, err := f.Agents(); err != nil || len(list) != 1 || list[0].Command != "my-agent-2" || list[0].Mode != "ask" {
		t.Errorf("replaced: %+v, %v", list, err)
	}
	if _, err := f.Remove("other"); !errors.Is(err, ErrNone) {
		t.Errorf("removed nothing: %v", err)
	}
	if got, err := f.Remove("mine"); err != nil || got.Command != "my-agent-2" {
		t.Errorf("%+v, %v", got, err)
	}
	if list, err := f.Agents(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestAddsAtOnce(t *testing.T) {
	f := state(t)
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		wg.Go(func() {
			if err := f.Add(Entry{Name: name, Command: "x"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := f.Agents(); err != nil || len(list) != 5 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		field string
		e     Entry
	}{
		"plain":            {"", Entry{Name: "x", Command: "x"}},
		"no name":          {"name", Entry{Command: "x"}},
		"name with a path": {"name", Entry{Name: "../x", Command: "x"}},
		"demo":             {"name", Entry{Name: "demo", Command: "x"}},
		"a ready one":      {"name", Entry{Name: "opencode", Command: "x"}},
		"no command":       {"command", Entry{Name: "x"}},
		"relative command": {"command", Entry{Name: "x", Command: "./x"}},
		"line in argument": {"args", Entry{Name: "x", Command: "x", Args: []string{"a\nb"}}},
		"odd variable":     {"env", Entry{Name: "x", Command: "x", Env: map[string]string{"A-B": "1"}}},
		"our variable":     {"env", Entry{Name: "x", Command: "x", Env: map[string]string{"REEVE_STATE": "1"}}},
		"a secret":         {"env", Entry{Name: "x", Command: "x", Env: map[string]string{"My_Api_Key": "1"}}},
		"unknown to pass":  {"pass", Entry{Name: "x", Command: "x", Pass: []string{"LD_PRELOAD"}}},
	} {
		bad := c.e.Check()
		if c.field == "" && bad != nil || c.field != "" && (bad == nil || bad.Field != c.field || bad.Fix == "") {
			t.Errorf("%s: %+v", name, bad)
		}
	}
}

// A file that can't be used is named and left as it is.
func TestBadFile(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"no JSON":        {"{", 0o600},
		"more":           {`{"agents":[]}{}`, 0o600},
		"unknown field":  {`{"agents":[{"name":"x","command":"x","enviroment":{}}]}`, 0o600},
		"bad entry":      {`{"agents":[{"name":"x"}]}`, 0o600},
		"twice":          {`{"agents":[{"name":"x","command":"x"},{"name":"x","command":"y"}]}`, 0o600},
		"read by others": {`{"agents":[]}`, 0o644},
		"too long":       {`{"agents":[]}` + strings.Repeat(" ", maxFile), 0o600},
	} {
		t.Run(name, func(t *testing.T) {
			f := state(t)
			if err := os.WriteFile(f.Path(), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(f.Path(), c.mode); err != nil {
				t.Fatal(err)
			}
			_, err := f.Agents()
			if err == nil || !strings.Contains(err.Error(), f.Path()) {
				t.Errorf("read: %v", err)
			}
			if err := f.Add(Entry{Name: "y", Command: "y"}); err == nil {
				t.Error("it was replaced")
			}
			if b, err := os.ReadFile(f.Path()); err != nil || string(b) != c.text {
				t.Errorf("it was changed: %v", err)
			}
		})
	}
}
