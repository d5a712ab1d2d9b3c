package conform_test

import (
	"fmt"
	"path/filepath"
)

// opencode is run by its ready entry. A person's own settings want everything
// to run unasked, and name another endpoint, which nothing answers.
func opencode() column {
	c := scripted(column{
		name: "opencode", binary: "REEVE_TEST_OPENCODE", new: entry("opencode"), agent: true, program: "opencode",
		model: "stub/stub-model", base: "/v1", keys: []string{"OPENCODE_DISABLE_MODELS_FETCH=1"}, refuses: "opencode.json", joint: true,
		brief: []string{"text", "command allowed", "denied with a reason", "file edit with its diff", "parallel calls, one denied", "question", "resume in a new process", "usage per turn", "429 with its end", "MCP tool call"},
		na:    map[string]string{"steer in a turn": "its protocol has no such verb"},
	}, func(line string) string {
		return call("bash", map[string]any{"command": line, "description": "a command"})
	})
	c.in = func(dir, line string) string {
		return call("bash", map[string]any{"command": line, "workdir": dir, "description": "a command"}) + "<<say:end>>"
	}
	c.add = func(file, last, line string) string {
		return call("read", map[string]any{"filePath": file}) +
			call("edit", map[string]any{"filePath": file, "oldString": last, "newString": last + "\n" + line}) + "<<say:end>>"
	}
	c.question = call("question", map[string]any{"questions": []any{map[string]any{"question": "Which colour?", "header": "Colour",
		"options": []any{map[string]any{"label": "red", "description": "r"}, map[string]any{"label": "blue", "description": "b"}}}}}) + "<<say:end>>"
	c.tool = func(name string, input any) string { return call("lab_"+name, input) + "<<say:end>>" }
	settings := func(w *world, key, more string) {
		w.file(filepath.Join(w.home, ".config", "opencode", "opencode.json"), fmt.Sprintf(`{"model":"stub/stub-model","small_model":"stub/stub-model",%s
			"permission":{"*":"allow","bash":{"touch *":"allow"}},"default_agent":"wild","agent":{"build":{"permission":{"*":"allow","bash":"allow"}},"wild":{"mode":"primary","permission":{"*":"allow"}}},
			"provider":{"stub":{"npm":"@ai-sdk/anthropic","name":"Stub","options":{"baseURL":"http://127.0.0.1:9/v1"%s},
			"models":{"stub-model":{"name":"Stub","tool_call":true,"limit":{"context":100000,"output":8000}}}}}}`, more, key))
	}
	const key = `,"apiKey":"test-key"`
	c.settings = func(w *world) { settings(w, key, "") }
	c.signOut = func(w *world) { settings(w, "", "") }
	c.home = func(w *world) {
		settings(w, key, `"mcp":{"broken":{"type":"local","command":["/nonexistent/server"]}},`)
	}
	return c
}
