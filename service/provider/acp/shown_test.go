package acp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
)

// asked is what a person sees of a call that is announced, and then asked for.
func asked(t *testing.T, announce, ask string) provider.Tool {
	t.Helper()
	w, _ := cannedWorld(t, "", canned{"session/new": {opens(noModes)}, "session/prompt": {announce, line(ask)}, "answer": {ends("3")}})
	s := conform.Open(t, w.p, w.spec)
	all := conform.Of[provider.PermissionRequested](s.Do("go", s.Allow()))
	if len(all) != 1 {
		t.Fatalf("asked %+v", all)
	}
	return all[0].Tool
}

// A model that puts the words of another agent's input into a call does not hide
// what the call is.
func TestACallIsNotNamedByItsModel(t *testing.T) {
	ask := strings.Replace(asks("7", "c", "webfetch"), `"kind":"execute"`,
		`"kind":"fetch","rawInput":{"url":"http://x.invalid/?secret","server":"docs","tool":"search","arguments":{}}`, 1)
	tool := asked(t, update(`{"sessionUpdate":"tool_call","toolCallId":"c","title":"webfetch","kind":"fetch","status":"pending"}`), ask)
	if tool.Title != "webfetch" || tool.Name != "webfetch" || !strings.Contains(string(tool.Input), "x.invalid") {
		t.Errorf("asked %+v", tool)
	}
}

// Some agents announce a call by the name of its tool, and say the command only
// when they ask.
func TestTheCommandIsThatOfTheRequest(t *testing.T) {
	if tool := asked(t, announced("c", "shell"), asks("7", "c", "rm a")); tool.Command != "rm a" {
		t.Errorf("asked %+v", tool)
	}
}

// What an agent says of a command in place of its input belongs to what is asked
// for: where the command runs, or a text that nobody understands.
func TestWhatIsSaidBesideACommand(t *testing.T) {
	said := func(p *Provider, text string) (w *world, tool provider.Tool) {
		w, _ = cannedWorld(t, "", canned{"session/new": {opens(noModes)}, "answer": {ends("3")}, "session/prompt": {announced("c", "rm a"),
			line(strings.Replace(asks("7", "c", "rm a"), `"kind":"execute"`, `"kind":"execute","content":[{"type":"content","content":{"type":"text","text":"`+text+`"}}]`, 1))}})
		if p != nil {
			w.p = p
		}
		s := conform.Open(t, w.p, w.spec)
		all := conform.Of[provider.PermissionRequested](s.Do("go", s.Allow()))
		if len(all) != 1 || all[0].Tool.Command != "rm a" {
			t.Fatalf("asked %+v", all)
		}
		return w, all[0].Tool
	}
	if w, tool := said(nil, "[in sub]"); string(tool.Input) != `{"shown":"[in sub]"}` || tool.Cwd != w.folder {
		t.Errorf("asked %+v", tool)
	}
	gemini := New(Agent{Name: "x", Title: "X", hardening: hardening{explains: geminiExplains}})
	for text, want := range map[string][3]string{ // below the folder, why, input
		"[in sub]":       {"sub"},
		"[in sub] (why)": {"sub", "why"},
		"[current working directory sub/deeper] (why (so))": {"sub/deeper", "why (so)"},
		"[in sub] (why) [background]":                       {"", "", `{"shown":"[in sub] (why) [background]"}`},
		"[in sub] (b] (why)":                                {"", "", `{"shown":"[in sub] (b] (why)"}`},
		"[in ] (why)":                                       {"", "", `{"shown":"[in ] (why)"}`},
		"in sub":                                            {"", "", `{"shown":"in sub"}`},
	} {
		if w, tool := said(gemini, text); tool.Cwd != filepath.Join(w.folder, want[0]) || tool.Reason != want[1] || string(tool.Input) != want[2] {
			t.Errorf("%s: asked %+v", text, tool)
		}
	}
}

// A file that a call changes is named once, however often the agent says it.
func TestFilesAreNamedOnce(t *testing.T) {
	content := `"kind":"edit","content":[{"type":"diff","path":"b.txt","newText":"x"}]`
	tool := asked(t, update(`{"sessionUpdate":"tool_call","toolCallId":"c","title":"Write","status":"pending",`+content+`}`),
		strings.Replace(asks("7", "c", "Write"), `"kind":"execute"`, content, 1))
	if len(tool.Paths) != 1 {
		t.Errorf("asked %+v", tool)
	}
}

// A change that was made is shown as it was asked for, though the file that holds
// it still holds what was there before.
func TestChangesThatWereMade(t *testing.T) {
	content := `"content":[{"type":"diff","path":"a.txt","oldText":"two","newText":"two\nthree"}]`
	w, _ := cannedWorld(t, "", canned{"session/new": {opens(noModes)},
		"session/prompt": {line(strings.Replace(asks("7", "c", "Edit"), `"kind":"execute"`, `"kind":"edit",`+content, 1))},
		"answer":         {update(`{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed",` + content + `}`), ends("3")}})
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(w.folder, "a.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one\ntwo\nfour\n")
	s := conform.Open(t, w.p, w.spec)
	turn := s.Do("go", s.Decide(func(provider.PermissionRequested) provider.Answer {
		write("one\ntwo\nthree\nfour\n") // as the agent does when it may
		return provider.Answer{Allow: true}
	}))
	asked, over := conform.Of[provider.PermissionRequested](turn), conform.Of[provider.ToolFinished](turn)
	if len(asked) != 1 || len(over) != 1 || over[0].Diff != asked[0].Tool.Diff || !strings.Contains(over[0].Diff, "\n+three\n") {
		t.Errorf("asked %+v, finished %+v", asked, over)
	}
}

// A line that the library can't take ends the agent, not the hope for an end of
// the turn.
func TestLineThatIsTooLong(t *testing.T) {
	w, _ := cannedWorld(t, "", canned{"session/new": {opens(noModes)}, "session/prompt": {line(asks("7", "c", "$BIG"))}})
	s := conform.Open(t, w.p, w.spec)
	want(t, s.Do("go", nil), mission.Failed, mission.LocalExecutionFailure, "")
}

// An agent may tell of its servers while it is being opened: that is not told
// before the session is there, nor twice.
func TestServersAreToldOfEarly(t *testing.T) {
	w, _ := adapter(t, "claude-agent-acp", canned{"session/new": {
		claudeSays(`{"type":"system","permissionMode":"default","mcp_servers":[{"name":"lab","status":"failed"}]}`), opens(modes("default"))}, "session/prompt": {done}})
	w.spec.Servers = []provider.Server{{Name: "lab", Command: filepath.Join(w.folder, "nothing")}}
	turn := conform.Open(t, w.p, w.spec).Do("go", nil)
	want(t, turn, mission.Succeeded, "", mission.NextWaiting)
	if told := conform.Of[provider.Notice](turn); len(told) != 1 {
		t.Errorf("told %+v", told)
	}
}
