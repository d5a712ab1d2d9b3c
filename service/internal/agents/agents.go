// Package agents keeps the person's own ACP agents: a private file in the state
// directory, so that a second instance with its own state has its own agents.
// Only the service writes it, but a person may edit it; it is read anew each
// time.
package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/internal/private"
	"github.com/reevehq/reeve/service/provider/acp"
)

// FileName is the file's name in the state directory.
const FileName = "agents.json"

const (
	maxFile   = 256 << 10 // bytes
	maxAgents = 64
	maxWord   = 4096 // bytes of an argument or a value
)

// Entry is one agent. The zero values of all but Name and Command are usual.
type Entry struct {
	Name    string            `json:"name"`            // of the provider acp:<name>
	Title   string            `json:"title,omitempty"` // what people see; default: the name
	Command string            `json:"command"`         // an absolute path, or a name that is looked up in PATH
	Args    []string          `json:"args,omitempty"`  // what makes it speak the protocol
	Env     map[string]string `json:"env,omitempty"`   // fixed values; no secrets
	Pass    []string          `json:"pass,omitempty"`  // variables of the proposer that it gets, secret ones in memory only
	Mode    string            `json:"mode,omitempty"`  // the session mode that it is held to
}

// File is the file of the agents. Its methods may be called from any goroutine.
type File struct {
	path  string
	write sync.Mutex
}

// In returns the file of a state directory.
func In(stateDir string) *File { return &File{path: filepath.Join(stateDir, FileName)} }

// Path is where it is.
func (f *File) Path() string { return f.path }

// content is the file.
type content struct {
	Agents []Entry `json:"agents"`
}

// Agents returns the entries. One that can't be used, or a file that can't be
// read, is an error that says what to do; then there are none.
func (f *File) Agents() ([]Entry, error) {
	b, err := private.ReadFile(f.path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var c content
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf("%s can't be read as a list of agents: %w; mend it, or move it away", f.path, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s has more in it than a list of agents; mend it, or move it away", f.path)
	}
	if len(c.Agents) > maxAgents {
		return nil, fmt.Errorf("%s has %d agents; at most %d are allowed", f.path, len(c.Agents), maxAgents)
	}
	seen := map[string]bool{}
	for i, e := range c.Agents {
		if bad := e.Check(); bad != nil {
			return nil, fmt.Errorf("entry %d of %s can't be used: %w", i+1, f.path, *bad)
		}
		if seen[e.Name] {
			return nil, fmt.Errorf("%s has two agents with the name %s; rename or remove one", f.path, e.Name)
		}
		seen[e.Name] = true
	}
	return c.Agents, nil
}

// ErrTaken: there is an agent of that name.
var ErrTaken = errors.New("there is an agent of that name")

// ErrNone: there is no agent of that name.
var ErrNone = errors.New("there is no agent of that name")

// Add adds an entry that was checked.
func (f *File) Add(e Entry) error {
	return f.change(func(list []Entry) ([]Entry, error) {
		if slices.ContainsFunc(list, func(x Entry) bool { return x.Name == e.Name }) {
			return nil, ErrTaken
		}
		if len(list) == maxAgents {
			return nil, fmt.Errorf("there are %d agents already, and no more are allowed", maxAgents)
		}
		return append(list, e), nil
	})
}

// Replace puts an entry that was checked in the place of the one of its name.
func (f *File) Replace(e Entry) error {
	return f.change(func(list []Entry) ([]Entry, error) {
		i := slices.IndexFunc(list, func(x Entry) bool { return x.Name == e.Name })
		if i < 0 {
			return nil, ErrNone
		}
		list[i] = e
		return list, nil
	})
}

// Remove removes an entry and returns it.
func (f *File) Remove(name string) (e Entry, err error) {
	err = f.change(func(list []Entry) ([]Entry, error) {
		i := slices.IndexFunc(list, func(x Entry) bool { return x.Name == name })
		if i < 0 {
			return nil, ErrNone
		}
		e = list[i]
		return slices.Delete(list, i, i+1), nil
	})
	return e, err
}

// change replaces the file whole. One that can't be read is left as it is.
func (f *File) change(fn func([]Entry) ([]Entry, error)) error {
	f.write.Lock()
	defer f.write.Unlock()
	list, err := f.Agents()
	if err != nil {
		return err
	}
	if list, err = fn(list); err != nil {
		return err
	}
	b, err := json.MarshalIndent(content{Agents: slices.Concat([]Entry{}, list)}, "", "  ")
	if err != nil {
		return err
	}
	return private.WriteFile(f.path, append(b, '\n'))
}

// Check returns what is wrong with an entry, nil when it can be used.
func (e Entry) Check() *mission.Problem {
	if bad := mission.CheckProvider("acp:" + e.Name); bad != nil {
		return &mission.Problem{Field: "name", Message: bad.Message, Fix: bad.Fix}
	}
	if e.Name == "demo" || slices.ContainsFunc(acp.Ready(), func(a acp.Agent) bool { return a.Name == e.Name }) {
		return &mission.Problem{Field: "name", Message: fmt.Sprintf("%s is an agent that Reeve has already.", e.Name),
			Fix: "Put its program into your PATH, or choose another name."}
	}
	plain := func(field, what, s string) *mission.Problem {
		if len(s) <= maxWord && !strings.ContainsFunc(s, unicode.IsControl) {
			return nil
		}
		return &mission.Problem{Field: field, Message: what + " is too long, or has a control character in it.", Fix: "Write it in one line of at most 4,096 bytes."}
	}
	for _, bad := range []*mission.Problem{plain("title", "The title", e.Title), plain("command", "The command", e.Command), plain("mode", "The mode", e.Mode)} {
		if bad != nil {
			return bad
		}
	}
	if e.Command == "" || !filepath.IsAbs(e.Command) && strings.ContainsAny(e.Command, `/\`) {
		return &mission.Problem{Field: "command", Message: fmt.Sprintf("%q is neither the name of a program nor an absolute path.", e.Command),
			Fix: "Write the name of a program in your PATH, or its whole path."}
	}
	for _, a := range e.Args {
		if bad := plain("args", "An argument", a); bad != nil {
			return bad
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		value := e.Env[name]
		if bad := plain("env", "The value of "+name, value); bad != nil {
			return bad
		}
		if !variable(name) || strings.HasPrefix(name, "REEVE_") {
			return &mission.Problem{Field: "env", Message: fmt.Sprintf("%q can't be the name of a variable here.", name),
				Fix: "Use letters, digits and underscores; names that begin with REEVE_ are Reeve's own."}
		}
		if secret(name) {
			return &mission.Problem{Field: "env", Message: name + " looks like a secret, and the values of this file are shown in approvals.",
				Fix: "Keep it in the agent's own settings, or pass it on, so that it comes from your environment and is never written."}
		}
	}
	known := mission.ProviderVariables("acp")
	for _, name := range e.Pass {
		if !slices.ContainsFunc(known, func(v mission.Variable) bool { return v.Name == name }) {
			var names []string
			for _, v := range known {
				names = append(names, v.Name)
			}
			return &mission.Problem{Field: "pass", Message: fmt.Sprintf("The variable %q can't be passed on.", name),
				Fix: "Use one of " + strings.Join(names, ", ") + ", or keep it in the agent's own settings."}
		}
	}
	return nil
}

func variable(name string) bool {
	for i, r := range name {
		switch {
		case r == '_', 'A' <= r && r <= 'Z', 'a' <= r && r <= 'z', i > 0 && '0' <= r && r <= '9':
		default:
			return false
		}
	}
	return name != ""
}

// secret guesses by the name.
func secret(name string) bool {
	for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"} {
		if strings.Contains(strings.ToUpper(name), word) {
			return true
		}
	}
	return false
}

// Provider returns the provider that an entry stands for.
func (e Entry) Provider() *acp.Provider {
	a := acp.Agent{Name: e.Name, Title: e.Title, Path: e.Command, Args: e.Args, Mode: e.Mode}
	if a.Title == "" {
		a.Title = e.Name
	}
	for _, v := range mission.ProviderVariables("acp") {
		if slices.Contains(e.Pass, v.Name) {
			a.Variables = append(a.Variables, v)
		}
	}
	for name, value := range e.Env {
		a.Env = append(a.Env, name+"="+value)
	}
	slices.Sort(a.Env)
	return acp.New(a)
}
