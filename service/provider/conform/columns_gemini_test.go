package conform_test

import (
	"path/filepath"

	"github.com/reevehq/reeve/ipc/wire"
)

// gemini is run by its ready entry, with a person's settings that want everything
// to run unasked.
func gemini() column {
	const reload = "it does not find a session again at once, and one that was loaded it removes; so its process stays, and after a crash a fresh session begins"
	c := scripted(column{
		name: "gemini", binary: "REEVE_TEST_GEMINI", new: entry("gemini"), agent: true, program: "gemini",
		model: "gemini-2.5-pro", keys: []string{"GEMINI_API_KEY=test-key", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:9"}, refuses: ".gemini/settings.json",
		na: map[string]string{"steer in a turn": "its protocol has no such verb",
			"resume in a new process": reload, "resume after SIGKILL": reload, "session id in use": reload},
		silent: []string{noExit, noCache, noCalls},
	}, func(line string) string {
		return call("run_shell_command", map[string]any{"command": line, "description": "a command"})
	})
	c.in = func(dir, line string) string {
		return call("run_shell_command", map[string]any{"command": line, "dir_path": dir}) + "<<say:end>>"
	}
	c.add = func(file, last, line string) string {
		return call("read_file", map[string]any{"file_path": file}) +
			call("replace", map[string]any{"file_path": file, "old_string": last, "new_string": last + "\n" + line, "instruction": "add a line"}) + "<<say:end>>"
	}
	c.served, c.question = true, call("mcp_reeve_"+wire.MCPAskQuestion, colours)+"<<say:end>>"
	c.tool = func(name string, input any) string { return call("mcp_lab_"+name, input) + "<<say:end>>" }
	settings := func(w *world, more string) {
		w.file(filepath.Join(w.home, ".gemini", "settings.json"), `{"security":{"auth":{"selectedType":"gemini-api-key"}},"model":{"name":"gemini-2.5-pro"},"general":{"defaultApprovalMode":"auto_edit"},`+more+`
			"tools":{"allowed":["run_shell_command","write_file","replace","read_file"]}}`)
		w.file(filepath.Join(w.home, ".gemini", "policies", "all.toml"), "[[rule]]\ntoolName = \"*\"\ndecision = \"allow\"\npriority = 999\n")
	}
	c.settings = func(w *world) { settings(w, "") }
	c.elsewhere = func(w *world, url string) {
		w.file(filepath.Join(w.home, ".gemini", ".env"), "GOOGLE_GEMINI_BASE_URL="+url+"\n")
	}
	c.home = func(w *world) { settings(w, `"mcpServers":{"broken":{"command":"/nonexistent/server"}},`) }
	return c
}
