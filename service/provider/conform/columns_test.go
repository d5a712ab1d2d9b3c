package conform_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/acp"
	"github.com/reevehq/reeve/service/provider/claude"
	"github.com/reevehq/reeve/service/provider/codex"
	"github.com/reevehq/reeve/service/provider/conform"
	"github.com/reevehq/reeve/service/provider/modelstub"
)

// column is one provider of the table: how it is run, and how it is made to do
// what a scenario wants. A prompt that it can't be given is in na, with the
// reason.
type column struct {
	name   string
	binary string // environment variable that names the real program
	new    func(exe string) provider.Provider
	model  string // one that the program knows
	keys   []string
	base   string // what follows the stand-in's URL in the endpoint
	agent  bool   // it speaks ACP; make more-agents installs it, for test-providers
	// Of such agents: the program that a ready entry looks for, the file of a
	// repository for which it is refused, and whether one denial refuses the calls
	// that wait beside it.
	program, refuses string
	joint            bool
	lingers          bool // it does not end with its input
	served           bool // it asks questions by Reeve's own server
	na               map[string]string
	// brief are the scenarios that make test runs of a slow program; for all of
	// them there is make test-providers, which sets REEVE_TEST_SCENARIOS.
	brief  []string
	silent []string // what the program never says, such as noExit; the table tells
	// mends are failures that the program itself gets over.
	mends map[string]bool

	text     func(text string) string
	pieces   func(n, ms int) string
	commands func(lines ...string) string // one after the other
	parallel func(a, b string) string
	// in is a command that is to run in a directory of the folder, where the tool
	// has a word for that.
	in  func(dir, line string) string
	add func(file, last, line string) string // a line after the last one
	// tool calls one of the MCP server lab.
	tool     func(name string, input any) string
	question string
	// settings puts the person's own configuration in place, signOut one that has
	// no key.
	settings, signOut func(w *world)
	// home puts the person's own configuration with a broken MCP server in place,
	// elsewhere one with another endpoint than the mission's.
	home      func(w *world)
	elsewhere func(w *world, url string)
}

// What some programs never say.
const (
	noExit  = "how a command exited"
	noCache = "how many tokens came from a cache"
	noCalls = "how often it called the model"
)

func (c column) says(what string) bool { return !slices.Contains(c.silent, what) }

func call(name string, input any) string {
	b, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return "<<tool:" + name + " " + string(b) + ">>"
}

// scripted are the prompts that the stand-in for a model API understands.
func scripted(c column, command func(line string) string) column {
	c.text = func(text string) string { return "<<say:" + text + ">>" }
	c.pieces = func(n, ms int) string { return fmt.Sprintf("<<slow:%d:%d>>", n, ms) }
	c.commands = func(lines ...string) string {
		var b strings.Builder
		for _, l := range lines {
			b.WriteString(command(l))
		}
		return b.String() + "<<say:end>>"
	}
	c.parallel = func(a, b string) string { return command(a) + "&" + command(b) + "<<say:end>>" }
	return c
}

func columns() []column {
	c1 := scripted(column{
		name: "Claude Code", binary: "REEVE_TEST_CLAUDE", new: func(string) provider.Provider { return claude.New() },
		model: "claude-haiku-4-5", keys: []string{"ANTHROPIC_API_KEY=test-key", "CLAUDE_CODE_MAX_RETRIES=1", "ANTHROPIC_BASE_URL=http://127.0.0.1:9"},
		mends: map[string]bool{"stream cut off": true}, // it asks once more, without a stream
	}, func(line string) string { return call("Bash", map[string]any{"command": line}) })
	c1.add = func(file, last, line string) string {
		return call("Read", map[string]any{"file_path": file}) +
			call("Edit", map[string]any{"file_path": file, "old_string": last, "new_string": last + "\n" + line}) + "<<say:end>>"
	}
	c1.question = call("AskUserQuestion", map[string]any{"questions": []any{map[string]any{"question": "Which colour?", "header": "Colour", "multiSelect": false,
		"options": []any{map[string]any{"label": "red", "description": "r"}, map[string]any{"label": "blue", "description": "b"}}}}}) + "<<say:end>>"
	c1.tool = func(name string, input any) string { return call("mcp__lab__"+name, input) + "<<say:end>>" }
	c1.elsewhere = func(w *world, url string) {
		w.file(filepath.Join(w.home, ".claude.json"), `{"env":{"ANTHROPIC_BASE_URL":"`+url+`"}}`)
	}
	c1.home = func(w *world) {
		w.file(filepath.Join(w.home, ".claude.json"), `{"mcpServers":{"broken":{"command":"/nonexistent/server","args":[]}}}`)
	}

	c2 := scripted(column{
		name: "Codex", binary: "REEVE_TEST_CODEX", new: func(string) provider.Provider { return codex.New() },
		model: "gpt-5.5", base: "/v1", keys: []string{"OPENAI_API_KEY=test-key", "OPENAI_BASE_URL=http://127.0.0.1:9/v1"},
	}, func(line string) string { return call("exec_command", map[string]any{"cmd": line}) })
	c2.in = func(dir, line string) string {
		return call("exec_command", map[string]any{"cmd": line, "workdir": dir}) + "<<say:end>>"
	}
	c2.add = func(file, last, line string) string {
		return call("apply_patch", "*** Begin Patch\n*** Update File: "+file+"\n@@\n "+last+"\n+"+line+"\n*** End Patch") + "<<say:end>>"
	}
	c2.question = call("request_user_input", map[string]any{"questions": []any{map[string]any{"id": "colour", "question": "Which colour?", "header": "Colour",
		"options": []any{map[string]any{"label": "red", "description": "r"}, map[string]any{"label": "blue", "description": "b"}}}}}) + "<<say:end>>"
	c2.tool = func(name string, input any) string { return call("mcp__lab/"+name, input) + "<<say:end>>" }
	c2.home = func(w *world) {
		w.file(filepath.Join(w.home, ".codex", "config.toml"), "[mcp_servers.broken]\ncommand = \"/nonexistent/server\"\nrequired = true\n")
	}

	// With demo:model it passes on what the stand-in for a model API understands.
	c3 := column{
		name: "demo", new: func(exe string) provider.Provider { return acp.Demo(exe) },
		model: "demo-1", keys: []string{"REEVE_DEMO_BASE_URL=http://127.0.0.1:9"}, silent: []string{noCalls},
		text: func(text string) string {
			return demoPrompt("demo:model <<say:" + strings.ReplaceAll(text, "\n", " ") + ">>")
		},
		pieces: func(n, ms int) string {
			return demoPrompt(fmt.Sprintf("demo:%s %d", map[bool]string{true: "slow", false: "burst"}[ms > 0], n))
		},
		commands: func(lines ...string) string {
			return demoPrompt("demo:command " + strings.Join(lines, "\ndemo:command "))
		},
		parallel: func(a, b string) string { return demoPrompt("demo:parallel " + a + " && " + b) },
		tool: func(name string, input any) string {
			b, err := json.Marshal(input)
			if err != nil {
				panic(err)
			}
			return demoPrompt("demo:mcp " + name + " " + string(b))
		},
		home: func(*world) {},
		add: func(file, last, line string) string {
			return demoPrompt("demo:slow 1", "add a line "+line+" to "+filepath.Base(file))
		},
	}
	c3.served, c3.question = true, c3.tool(wire.MCPAskQuestion, colours)
	return append([]column{c1, c2, opencode(), gemini(), c3}, adapters(c1, c2)...)
}

func demoPrompt(scope string, steering ...string) string {
	return mission.TurnPrompt(mission.PromptInput{Scope: scope, EndsAt: time.Now().Add(time.Hour), Turn: 1, Steering: steering})
}

// world is a machine for one scenario and one provider.
type world struct {
	t      *testing.T
	c      column
	p      provider.Provider
	stub   *modelstub.Server
	folder string
	home   string
	spec   provider.Spec
}

func newWorld(t *testing.T, c column) *world {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stub, err := modelstub.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stub.Close)
	root, err := os.MkdirTemp("", "conform-")
	if err != nil {
		t.Fatal(err)
	}
	// The programs write to their homes until they have ended, so what the tests
	// opened is closed before.
	t.Cleanup(func() { os.RemoveAll(root) })
	w := &world{t: t, c: c, p: c.new(exe), stub: stub, folder: filepath.Join(root, "a földer"), home: filepath.Join(root, "home")}
	private := filepath.Join(root, "private")
	for _, d := range []string{w.folder, w.home, private} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.spec = provider.Spec{Path: exe, Folder: w.folder, PrivateDir: private, Model: c.model,
		Env: append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "LANG=C.UTF-8"}, c.keys...)}
	if c.binary == "" {
		w.spec.Args, w.spec.Model, w.spec.Endpoint = []string{"demo-agent"}, "", stub.URL() // its model can't be chosen
		return w
	}
	if w.spec.Path = os.Getenv(c.binary); w.spec.Path == "" {
		t.Fatalf("set %s to the native program of %s (make test does)", c.binary, c.name)
	}
	if c.settings != nil {
		c.settings(w)
	}
	if c.program != "" {
		found := w.p.Probe(t.Context(), []string{"PATH=" + w.tools(c.program)})
		w.spec.Args, w.spec.Env = found.Args, append(w.spec.Env, found.Fixed...)
	}
	w.spec.Endpoint = stub.URL() + c.base
	w.spec.Instructions = w.file(filepath.Join(private, "instructions.md"), "Instructions of the mission: canary-instruction.")
	return w
}

// tools makes a directory with the program under the name by which it is found.
func (w *world) tools(name string) string {
	w.t.Helper()
	dir := filepath.Join(w.home, "tools")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Symlink(w.spec.Path, filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
		w.t.Fatal(err)
	}
	return dir
}

// asked are the requests that a model had to answer with the agent's tools at
// hand. Some agents ask for other things besides, a title perhaps.
func (w *world) asked() []modelstub.Request {
	var list []modelstub.Request
	for _, r := range w.stub.Requests() {
		if len(r.Tools) > 0 {
			list = append(list, r)
		}
	}
	return list
}

func (w *world) file(path, text string) string {
	w.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.folder, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) has(name string) bool {
	_, err := os.Stat(filepath.Join(w.folder, name))
	return err == nil
}

func (w *world) open() *conform.Session {
	w.t.Helper()
	s := conform.Open(w.t, w.p, w.spec)
	s.Lingers = w.c.lingers
	return s
}

// results of the model's tool calls, as the last request carried them.
func (w *world) results() []string {
	all := w.stub.Requests()
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1].Results
}

func (w *world) want(turn conform.Turn, o mission.Outcome, c mission.Code) {
	w.t.Helper()
	if turn.Finished.Outcome.Outcome != o || turn.Finished.Outcome.Code != c {
		w.t.Fatalf("the turn ended %s %q (%s), want %s %q", turn.Finished.Outcome.Outcome, turn.Finished.Outcome.Code, turn.Finished.Message, o, c)
	}
}
