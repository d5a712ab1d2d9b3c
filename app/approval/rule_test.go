package approval_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/approval"
	"pgregory.net/rapid"
)

var checkoutRoot = filepath.Join(root, "b")

func command(text string) approval.Request {
	return commandIn(text, checkoutRoot)
}

func commandIn(text, cwd string) approval.Request {
	input, err := json.Marshal(map[string]any{"command": text, "description": "words about " + text})
	if err != nil {
		panic(err)
	}
	return request(approval.ToolCall, approval.Subject{Title: text, Tool: "Bash", Command: text, Cwd: cwd, Reason: "words about " + text, Input: input},
		approval.Call{Kind: "execute"})
}

func request(kind approval.Kind, s approval.Subject, c approval.Call) approval.Request {
	r := approval.NewRequest(kind, s, c, checkoutRoot)
	r.Mission, r.Project = "m-1", "/src"
	return r
}

func edit(paths ...string) approval.Request {
	c := approval.Call{Kind: "edit"}
	s := approval.Subject{Title: "Edit " + strings.Join(paths, " "), Tool: "Edit", Cwd: checkoutRoot, Diff: "+x\n"}
	for _, p := range paths {
		full := filepath.Join(checkoutRoot, filepath.FromSlash(p))
		s.Paths = append(s.Paths, full)
		c.Paths = append(c.Paths, approval.Path{Asked: full, Resolved: full})
	}
	return request(approval.FileChange, s, c)
}

func mcp(tool, input string) approval.Request {
	return request(approval.ToolCall, approval.Subject{Title: tool, Tool: "mcp__gh__" + tool, Server: "gh", Input: json.RawMessage(input)}, approval.Call{Kind: "mcp"})
}

func rule(t interface{ Fatal(...any) }, effect approval.Effect, reach string, r approval.Request, pattern string) approval.Rule {
	out, err := approval.NewRule(effect, reach, r, pattern)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func allows(r approval.Rule, q approval.Request) bool {
	got, ok := approval.Judge([]approval.Rule{r}, q)
	return ok && got.Effect == approval.Allow
}

func denies(r approval.Rule, q approval.Request) bool {
	got, ok := approval.Judge([]approval.Rule{r}, q)
	return ok && got.Effect == approval.Deny
}

func TestSuggest(t *testing.T) {
	for _, row := range []struct {
		request approval.Request
		want    []string
	}{
		{command("npm test"), []string{"npm test *"}},
		{command("npm run build one"), []string{"npm run build *"}},
		{command("go test -race ./..."), []string{"go test -race ./... *"}},
		{command("go test ./a -run TestX ./b"), []string{"go test ./a -run TestX *"}},
		{command("go test -exec"), nil}, // the next word would be its value
		{command("go test ./a -race"), nil},
		{command("git diff --stat"), nil},
		{command("git diff --stat HEAD x"), []string{"git diff --stat HEAD *"}},
		{command("git -c core.pager=x diff"), nil},
		{command("git diff /etc/passwd"), nil},
		{command("git"), nil},
		{command("npm"), nil},
		{command("npm run"), nil},
		{command("npm install left-pad"), nil},
		{command("python3 -c x"), nil},
		{command("bash run.sh"), nil},
		{command("make test"), nil},
		{command("sudo npm test"), nil},
		{command("env npm test"), nil},
		{command("go run ./x"), nil},
		{command("git commit -m x"), nil},
		{command("git diff; ls"), nil},
		{command("npm test > out"), nil},
		{command("A=1 npm test"), nil},
		{command("npm test *"), nil},
		{edit("docs/a/x.md"), []string{"docs/a/x.md", "docs/a/"}},
		{edit("docs/a/x.md", "docs/b/y.md"), []string{"docs/"}},
		{edit("x.md"), []string{"x.md"}},
		{edit("x.md", "docs/y.md"), nil},
		{edit(".git/hooks/post-commit"), nil},
		{edit("../b2/x"), nil},
		{mcp("create_issue", `{"title":"x"}`), []string{"gh mcp__gh__create_issue *"}},
		{command(strings.Repeat("x", 5000)), nil},
	} {
		var got []string
		for _, p := range approval.Suggest(row.request) {
			got = append(got, p.Text)
			if p.Sentence == "" {
				t.Errorf("%q has no sentence", p.Text)
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%q %v: %q, want %q", row.request.Command, row.request.Files, got, row.want)
		}
	}
}

// TestAllowExactly is case 21: what was allowed for the mission is that and
// nothing beside it.
func TestAllowExactly(t *testing.T) {
	r := rule(t, approval.Allow, approval.ForMission, command("git status"), "")
	if !allows(r, command("git status")) {
		t.Error("the same is asked again")
	}
	changed := func(change func(s *approval.Subject)) approval.Request {
		s := approval.Subject{Title: "git status", Tool: "Bash", Command: "git status", Cwd: checkoutRoot, Input: json.RawMessage(`{"command":"git status"}`)}
		change(&s)
		return request(approval.ToolCall, s, approval.Call{Kind: "execute"})
	}
	other := command("git status")
	other.Mission = "m-2"
	for name, q := range map[string]approval.Request{
		"more":            command("git status; curl x | sh"),
		"substitution":    command("git status $(x)"),
		"newline":         command("git  status\n"),
		"space":           command("git  status"),
		"end":             command("git status "),
		"folder":          commandIn("git status", filepath.Join(checkoutRoot, "sub")),
		"folder outside":  commandIn("git status", root),
		"environment":     changed(func(s *approval.Subject) { s.Env = map[string]string{"GIT_PAGER": "x"} }),
		"argument":        changed(func(s *approval.Subject) { s.Input = json.RawMessage(`{"command":"git status","unsafe":true}`) }),
		"tool":            changed(func(s *approval.Subject) { s.Tool = "Zsh" }),
		"server":          changed(func(s *approval.Subject) { s.Server = "x" }),
		"another mission": other,
	} {
		if allows(r, q) {
			t.Errorf("%s: allowed unasked", name)
		}
	}
	for _, kind := range []approval.Kind{approval.QuestionAsked, approval.MissionStart, approval.MissionRecover} {
		q := command("git status")
		q.Kind = kind
		if allows(r, q) {
			t.Errorf("%s: a rule answered it", kind)
		}
		if _, err := approval.NewRule(approval.Allow, approval.ForMission, request(kind, approval.Subject{Command: "x"}, approval.Call{}), ""); err == nil {
			t.Errorf("%s: a rule was made", kind)
		}
	}
}

func TestAllowPattern(t *testing.T) {
	r := rule(t, approval.Allow, approval.ForProject, command("npm test"), "npm test *")
	elsewhere := command("npm test a")
	elsewhere.Mission = "m-2"
	for _, q := range []approval.Request{command("npm test"), command("npm test a b/c"), command("npm  test  a"), elsewhere} {
		if !allows(r, q) {
			t.Errorf("%q is asked", q.Command)
		}
	}
	foreign := command("npm test a")
	foreign.Project = "/other"
	if allows(r, foreign) || allows(r, commandIn("npm test a", root)) {
		t.Error("it is allowed in another project or folder")
	}
	for _, text := range []string{
		"npm test; x", "npm test && x", "npm test || x", "npm test | x", "npm test & x", "npm test &", "npm test\nx", "npm test $(x)", "npm test `x`",
		"npm test <(x)", "npm test > x", "npm test < x", "npm test 2>&1", "npm test <<EOF\nx\nEOF", "A=1 npm test", "npm test *", "npm test ?", "npm test [a]",
		"npm test {a,b}", "npm test ~", "npm test $X", "npm test ${X}", "(npm test)", "{ npm test; }", "! npm test", "npm() { x; }; npm test", "sudo npm test",
		"env npm test", "sh -c 'npm test'", "xargs npm test", "eval npm test", "command npm test", "exec npm test", "npm 'test'", `npm "test"`, `npm te\st`,
		"npm test --x", "npm test -x", "npm test A=1", "npm test /etc", "npm test ../x", "npm test a/../../x", "npm test C:x", "npm testx", "npmx test", "./npm test", "test npm",
		"npm\u00a0test", "npm test\u202e", "npm test\x00", "npm test\r", "npm test\t", "npm test #x", "time npm test", "npm test 'a;b'", "coproc npm test", "", " ", "npm",
		"if npm test; then x; fi", "[[ npm ]]", "((1))", "npm test a\\\nb", "npm test ;", "npm test;",
	} {
		if allows(r, command(text)) {
			t.Errorf("%q is allowed by %q", text, r.Pattern)
		}
	}
	r.Pattern = "bash *" // however it came there
	if allows(r, command("bash x")) {
		t.Error("a pattern of a shell allows")
	}
	if _, err := approval.NewRule(approval.Allow, approval.ForMission, command("npm test"), "npm *"); err == nil {
		t.Error("a pattern that was not offered makes a rule")
	}
}

func TestAllowFiles(t *testing.T) {
	folder := rule(t, approval.Allow, approval.ForMission, edit("docs/a.md"), "docs/")
	file := rule(t, approval.Allow, approval.ForMission, edit("docs/a.md"), "docs/a.md")
	for _, row := range []struct {
		q            approval.Request
		folder, file bool
	}{
		{edit("docs/a.md"), true, true},
		{edit("docs/b/c.md"), true, false},
		{edit("docs/a.md", "docs/b.md"), true, false},
		{edit("docs/a.md", "src/b.go"), false, false},
		{edit("docsx/a.md"), false, false},
		{edit("docs/.git/config"), false, false},
		{edit("docs/../../x"), false, false},
		{edit("docs"), false, false},
	} {
		if got := allows(folder, row.q); got != row.folder {
			t.Errorf("docs/ for %q: %v", row.q.Files, got)
		}
		if got := allows(file, row.q); got != row.file {
			t.Errorf("docs/a.md for %q: %v", row.q.Files, got)
		}
	}
	q := edit("docs/a.md")
	q.Tool = "x" // the frame has it, too
	q.Frame = ""
	if allows(folder, q) {
		t.Error("another tool is allowed")
	}
}

func TestAllowTool(t *testing.T) {
	exact := rule(t, approval.Allow, approval.ForMission, mcp("create", `{"title":"x"}`), "")
	any := rule(t, approval.Allow, approval.ForMission, mcp("create", `{"title":"x"}`), "gh mcp__gh__create *")
	if !allows(exact, mcp("create", `{ "title":"x" }`)) || allows(exact, mcp("create", `{"title":"y"}`)) || allows(exact, mcp("drop", `{"title":"x"}`)) {
		t.Error("exactly this call")
	}
	if !allows(any, mcp("create", `{"title":"y"}`)) || allows(any, mcp("drop", `{"title":"x"}`)) {
		t.Error("any arguments of one tool")
	}
	// Of a tool without arguments nobody sees what it would do.
	if approval.Standing(mcp("create", ``)) || approval.Standing(mcp("create", `{}`)) {
		t.Error("a rule could be made of nothing")
	}
}

func TestDeny(t *testing.T) {
	push := approval.Rule{Effect: approval.Deny, Reach: approval.ForMission, Mission: "m-1", Kind: approval.ToolCall, Class: "execute", Pattern: "git push *"}
	exact := rule(t, approval.Deny, approval.ForMission, command("rm -r x"), "")
	for _, row := range []struct {
		text        string
		push, exact bool
	}{
		{"git push", true, false},
		{"git push origin $X", true, false},
		{"git -C /x --no-pager push -f", true, false},
		{"/usr/bin/git push", true, false},
		{"ls; git push", true, false},
		{"echo $(git push)", true, false},
		{"echo `git push` <(rm -r x)", true, true},
		{"sh -c 'cd x && sudo git push'", true, false},
		{"xargs -n 1 git push < x", true, false},
		{"f() { git push; }", true, false},
		{`find . -exec rm -r x \; -print`, false, true},
		{"rm -r x", false, true},
		{"rm  -r 'x' || true", false, true},
		{"rm -r xy", false, false},
		{"git commit -m push", false, false},
		{"git pull", false, false},
	} {
		q := commandIn(row.text, filepath.Join(checkoutRoot, "sub"))
		if got := denies(push, q); got != row.push {
			t.Errorf("git push * on %q: %v", row.text, got)
		}
		if got := denies(exact, q); got != row.exact {
			t.Errorf("rm -r x on %q: %v", row.text, got)
		}
	}
	long := strings.Repeat("sudo ", 13_000) + "git push" // must not take long
	_ = denies(push, command(long))
	_ = denies(push, command("git "+strings.Repeat("-x ", 20_000)+"push"))
}

func TestDenyBeatsAllow(t *testing.T) {
	allow := rule(t, approval.Allow, approval.ForMission, command("npm test a"), "")
	deny := approval.Rule{ID: "r-9", Effect: approval.Deny, Reach: approval.ForProject, Project: "/src", Kind: approval.ToolCall, Class: "execute", Pattern: "npm *"}
	for _, rules := range [][]approval.Rule{{allow, deny}, {deny, allow}} {
		if got, ok := approval.Judge(rules, command("npm test a")); !ok || got.ID != "r-9" {
			t.Errorf("%v decides", got)
		}
	}
}

func TestNarrowestWins(t *testing.T) {
	q := command("npm test a")
	exactMission, exactProject := rule(t, approval.Allow, approval.ForMission, q, ""), rule(t, approval.Allow, approval.ForProject, q, "")
	wideMission, wideProject := rule(t, approval.Allow, approval.ForMission, q, "npm test *"), rule(t, approval.Allow, approval.ForProject, q, "npm test *")
	exactMission.ID, exactProject.ID, wideMission.ID, wideProject.ID = "r-1", "r-2", "r-3", "r-4"
	order := []approval.Rule{exactMission, exactProject, wideMission, wideProject}
	for len(order) > 0 {
		turned := slices.Clone(order)
		slices.Reverse(turned)
		for _, rules := range [][]approval.Rule{order, turned} {
			if got, ok := approval.Judge(rules, q); !ok || got.ID != order[0].ID {
				t.Errorf("of %d rules %s decides, not %s", len(rules), got.ID, order[0].ID)
			}
		}
		order = order[1:]
	}
}

func TestHandRule(t *testing.T) {
	for about, ok := range map[string]bool{"npm test": true, "npm test *": true, "rm -r x": true, "rm *": false, "bash *": false, "": false, "a\u202eb": false, "git diff; *": false} {
		if _, err := approval.HandRule(approval.Allow, false, about); (err == nil) != ok {
			t.Errorf("allow %q: %v", about, err)
		}
	}
	for about, ok := range map[string]bool{"docs/": true, "a.md": true, ".": false, "../x": false, "/x": false, ".git/": false, "a/.claude/x": false} {
		if _, err := approval.HandRule(approval.Allow, true, about); (err == nil) != ok {
			t.Errorf("allow changes of %q: %v", about, err)
		}
	}
	r, err := approval.HandRule(approval.Allow, false, "npm test *")
	if err != nil {
		t.Fatal(err)
	}
	r.Reach, r.Mission = approval.ForMission, "m-1"
	if !allows(r, command("npm test x")) || allows(r, commandIn("npm test x", root)) {
		t.Error("in the root of the checkout, and only there")
	}
	s := approval.Subject{Tool: "Bash", Command: "npm test x", Cwd: checkoutRoot, Input: json.RawMessage(`{"command":"npm test x","unsafe":true}`)}
	if allows(r, request(approval.ToolCall, s, approval.Call{Kind: "execute"})) {
		t.Error("an argument that nobody saw is allowed")
	}
	if !r.Narrower("npm test x *") || r.Narrower("npm *") || r.Narrower("npm test -x *") || r.Narrower("npm testx *") || r.Narrower("") {
		t.Error("narrower")
	}
}

// plainWord is what the person agreed to when they saw "any further plain
// words"; the property below is held against it, not against the matcher.
var plainWord = rapid.StringMatching(`[A-Za-z0-9_@%+:,.][A-Za-z0-9_@%+,.]{1,7}(/[A-Za-z0-9_]{1,4}){0,2}`).Filter(func(s string) bool {
	return s[1] != ':' && !slices.Contains(strings.Split(s, "/"), "..")
})

// mutations never leave a command of plain words: each brings in something that
// the pattern did not show.
var mutations = []string{
	";", "&&", "||", "|", "&", "\n", "\r", "\t", "$(x)", "`x`", "<(x)", ">(x)", ">x", "<x", "2>&1", "<<E\nE\n", "<<<x", "*", "?", "[a]", "{a,b}", "~", "$X", "${X}", "$((1))",
	"'", "\"", "\\", "#", "!", "(", ")", "{", "}", "\x00", "\u00a0", "\u2003", "\u200b", "\u202e", "\ufeff", "\uff1b", "\xff", "^", " -x", " --exec=x", " /etc", " ../x", " A=1",
}

func TestRulesNeverReachAcross(t *testing.T) {
	heads := []string{"npm test", "git diff", "git status", "go test", "cargo build", "npm run build", "go vet -x ./..."}
	wrappers := []string{"sudo ", "env ", "A=1 ", "sh -c ", "xargs ", "eval ", "command ", "time ", "exec ", "nohup ", "! ", "bash -c "}
	rapid.Check(t, func(t *rapid.T) {
		head := rapid.SampledFrom(heads).Draw(t, "head")
		pattern := head + " *"
		r := rule(t, approval.Allow, approval.ForMission, command(head), pattern)
		words := rapid.SliceOfN(plainWord, 0, 4).Draw(t, "words")
		good := strings.Join(append([]string{head}, words...), " ")
		if !allows(r, command(good)) {
			t.Fatalf("%q is not allowed by %q", good, pattern)
		}
		bad := good
		if rapid.Bool().Draw(t, "wrap") {
			bad = rapid.SampledFrom(wrappers).Draw(t, "wrapper") + good
		} else {
			m := rapid.SampledFrom(mutations).Draw(t, "mutation")
			at := len(good)
			if m[0] != ' ' {
				at = rapid.IntRange(0, len(good)).Draw(t, "at")
			}
			bad = good[:at] + m + good[at:]
		}
		if allows(r, command(bad)) {
			t.Fatalf("%q is allowed by %q", bad, pattern)
		}
		exact := rule(t, approval.Allow, approval.ForMission, command(good), "")
		if allows(exact, command(bad)) {
			t.Fatalf("%q is allowed as %q", bad, good)
		}
		// A rule that denies the program still finds it in what can be parsed.
		deny := approval.Rule{Effect: approval.Deny, Reach: approval.ForMission, Mission: "m-1", Class: "execute", Pattern: head + " *"}
		for _, around := range []string{"%", "x; %", "x && %", "x | %", "$(%)", "( % )", "sudo %", "bash -c '%'", "f() { %; }", "A=1 %", "% > y"} {
			if text := strings.Replace(around, "%", good, 1); !denies(deny, command(text)) {
				t.Fatalf("%q is not denied by %q", text, deny.Pattern)
			}
		}
	})
}

// Each thing that a person did not see, and each wrapper, at a place where it
// counts: the property above draws only some of them in a run.
func TestRulesReachNoFurther(t *testing.T) {
	r := rule(t, approval.Allow, approval.ForMission, command("npm test"), "npm test *")
	for _, m := range mutations {
		if text := "npm test a" + m; allows(r, command(text)) {
			t.Errorf("%q is allowed", text)
		}
	}
	for _, w := range []string{"sudo ", "env ", "A=1 ", "xargs ", "eval ", "command ", "time ", "exec ", "nohup ", "! "} {
		if text := w + "npm test a"; allows(r, command(text)) {
			t.Errorf("%q is allowed", text)
		}
	}
}

// FuzzAllowedCommand: whatever a pattern allows is made of bytes in which no
// shell sees anything but words, and begins with what was shown.
func FuzzAllowedCommand(f *testing.F) {
	for _, s := range []string{"npm test", "npm test a b", "npm test;x", "npm test $(x)", "npm test \x00", "npm test\u00a0x", "npm test 'a b'", "npm test -x", "npm test A=b", "npm test ../x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := rule(t, approval.Allow, approval.ForMission, command("npm test"), "npm test *")
		q := command(text)
		approval.Suggest(q)
		if !allows(r, q) {
			return
		}
		words := strings.Fields(text)
		if len(words) < 2 || words[0] != "npm" || words[1] != "test" {
			t.Fatalf("%q is allowed", text)
		}
		for _, c := range []byte(text) {
			if c != ' ' && !strings.ContainsRune("_@%+:,./-", rune(c)) && !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
				t.Fatalf("%q is allowed", text)
			}
		}
		for _, w := range words[2:] {
			if w[0] == '-' || w[0] == '/' || strings.HasPrefix(w, "../") {
				t.Fatalf("%q is allowed", text)
			}
		}
	})
}
