package mission_test

import (
	"math"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"pgregory.net/rapid"
)

func good() mission.Terms {
	return mission.Terms{Provider: "claude", Folder: folder("repo"), Scope: "Fix the date test.", Minutes: 60}.Normalize()
}

func TestFieldsAreChecked(t *testing.T) {
	type terms = mission.Terms
	rows := []struct {
		name  string
		set   func(*terms)
		field string // empty: accepted
	}{
		{"as it is", func(*terms) {}, ""},
		{"codex", func(m *terms) { m.Provider = "codex" }, ""},
		{"acp", func(m *terms) { m.Provider = "acp:demo" }, ""},
		{"no provider", func(m *terms) { m.Provider = "" }, "provider"},
		{"unknown provider", func(m *terms) { m.Provider = "gemini" }, "provider"},
		{"provider in capitals", func(m *terms) { m.Provider = "Claude" }, "provider"},
		{"acp without a name", func(m *terms) { m.Provider = "acp:" }, "provider"},
		{"acp with a path", func(m *terms) { m.Provider = "acp:../x" }, "provider"},
		{"acp, newline at the end", func(m *terms) { m.Provider = "acp:demo\n" }, "provider"},
		{"model", func(m *terms) { m.Model = "claude-opus-4.1" }, ""},
		{"model with path", func(m *terms) { m.Model = "openrouter/x:y_z" }, ""},
		{"longest model", func(m *terms) { m.Model = strings.Repeat("m", 150) }, ""},
		{"model too long", func(m *terms) { m.Model = strings.Repeat("m", 151) }, "model"},
		{"model that is an option", func(m *terms) { m.Model = "--yolo" }, "model"},
		{"model with a space", func(m *terms) { m.Model = "a b" }, "model"},
		{"model, newline at the end", func(m *terms) { m.Model = "opus\n" }, "model"},
		{"https", func(m *terms) { m.Endpoint = "https://api.example.com/v1" }, ""},
		{"http localhost", func(m *terms) { m.Endpoint = "http://localhost:8080" }, ""},
		{"http 127.0.0.1", func(m *terms) { m.Endpoint = "http://127.0.0.1:1" }, ""},
		{"http ::1", func(m *terms) { m.Endpoint = "http://[::1]:65535" }, ""},
		{"http elsewhere", func(m *terms) { m.Endpoint = "http://example.com" }, "endpoint"},
		{"http 127.0.0.2", func(m *terms) { m.Endpoint = "http://127.0.0.2" }, "endpoint"},
		{"http localhost.evil", func(m *terms) { m.Endpoint = "http://localhost.evil.com" }, "endpoint"},
		{"user info", func(m *terms) { m.Endpoint = "https://localhost@evil.com" }, "endpoint"},
		{"query", func(m *terms) { m.Endpoint = "https://a.com/?key=1" }, "endpoint"},
		{"empty query", func(m *terms) { m.Endpoint = "https://a.com/?" }, "endpoint"},
		{"fragment", func(m *terms) { m.Endpoint = "https://a.com/#x" }, "endpoint"},
		{"empty fragment", func(m *terms) { m.Endpoint = "https://a.com/#" }, "endpoint"},
		{"no host", func(m *terms) { m.Endpoint = "https:///x" }, "endpoint"},
		{"no scheme", func(m *terms) { m.Endpoint = "api.example.com" }, "endpoint"},
		{"ftp", func(m *terms) { m.Endpoint = "ftp://localhost" }, "endpoint"},
		{"look-alike host", func(m *terms) { m.Endpoint = "https://аpi.example.com" }, "endpoint"},
		{"backslash", func(m *terms) { m.Endpoint = `https://a.com\@b.com` }, "endpoint"},
		{"port 0", func(m *terms) { m.Endpoint = "https://a.com:0" }, "endpoint"},
		{"port too high", func(m *terms) { m.Endpoint = "https://a.com:65536" }, "endpoint"},
		{"no folder", func(m *terms) { m.Folder = "" }, "folder"},
		{"relative folder", func(m *terms) { m.Folder = "code/x" }, "folder"},
		{"tilde", func(m *terms) { m.Folder = "~/code" }, "folder"},
		{"NUL in folder", func(m *terms) { m.Folder += "\x00" }, "folder"},
		{"newline in folder", func(m *terms) { m.Folder += "\n" }, "folder"},
		{"folder not UTF-8", func(m *terms) { m.Folder += "\xff" }, "folder"},
		{"longest scope", func(m *terms) { m.Scope = strings.Repeat("ü", 4000) }, ""},
		{"longest scope in spaces", func(m *terms) { m.Scope = " \n" + strings.Repeat("ü", 4000) + "  " }, ""},
		{"scope too long", func(m *terms) { m.Scope = strings.Repeat("ü", 4001) }, "scope"},
		{"newline and tab", func(m *terms) { m.Scope = "a\n\tb" }, ""},
		{"Windows line ends", func(m *terms) { m.Scope = "a\r\nb" }, ""},
		{"lone CR", func(m *terms) { m.Scope = "a\rb" }, "scope"},
		{"NUL", func(m *terms) { m.Scope = "a\x00b" }, "scope"},
		{"ESC", func(m *terms) { m.Scope = "a\x1b[31mb" }, "scope"},
		{"C1 control", func(m *terms) { m.Scope = "a\u009bb" }, "scope"},
		{"empty scope", func(m *terms) { m.Scope = " \n\t" }, "scope"},
		{"invisible scope", func(m *terms) { m.Scope = "\u200b\u3164\u2060" }, "scope"},
		{"scope not UTF-8", func(m *terms) { m.Scope = "a\xc3(" }, "scope"},
		{"14", func(m *terms) { m.Minutes = 14 }, "minutes"},
		{"15", func(m *terms) { m.Minutes = 15 }, ""},
		{"17", func(m *terms) { m.Minutes = 17 }, "minutes"},
		{"240", func(m *terms) { m.Minutes = 240 }, ""},
		{"241", func(m *terms) { m.Minutes = 241 }, "minutes"},
		{"255", func(m *terms) { m.Minutes = 255 }, "minutes"},
		{"-15", func(m *terms) { m.Minutes = -15 }, "minutes"},
		{"budget", func(m *terms) { m.Budget = mission.Budget{Turns: 3, Tokens: 1e6, CostUSD: 2.5} }, ""},
		{"negative turns", func(m *terms) { m.Budget.Turns = -1 }, "budget"},
		{"negative tokens", func(m *terms) { m.Budget.Tokens = -1 }, "budget"},
		{"negative cost", func(m *terms) { m.Budget.CostUSD = -1 }, "budget"},
		{"cost NaN", func(m *terms) { m.Budget.CostUSD = math.NaN() }, "budget"},
		{"cost without end", func(m *terms) { m.Budget.CostUSD = math.Inf(1) }, "budget"},
		{"all rules", func(m *terms) { m.Unasked = []mission.Unasked{"reads", "edits", "plan", "room"} }, ""},
		{"no rules", func(m *terms) { m.Unasked = []mission.Unasked{} }, ""},
		{"unknown rule", func(m *terms) { m.Unasked = []mission.Unasked{"everything"} }, "unasked"},
		{"rule twice", func(m *terms) { m.Unasked = []mission.Unasked{"reads", "reads"} }, "unasked"},
	}
	for _, row := range rows {
		m := good()
		row.set(&m)
		problems := m.Check()
		switch {
		case row.field == "" && len(problems) != 0:
			t.Errorf("%s: refused: %v", row.name, problems)
		case row.field != "" && (len(problems) != 1 || problems[0].Field != row.field):
			t.Errorf("%s: got %v, want one problem with %s", row.name, problems, row.field)
		}
		for _, p := range problems {
			if !strings.HasSuffix(p.Message, ".") || !strings.HasSuffix(p.Fix, ".") || strings.ContainsAny(p.Error(), "\x00\x1b\n") {
				t.Errorf("%s: not two clean sentences: %q", row.name, p.Error())
			}
		}
	}
}

func TestEverythingWrongIsReportedAtOnce(t *testing.T) {
	if got := (mission.Terms{}).Check(); len(got) != 4 {
		t.Errorf("empty terms: got %d problems, want provider, folder, scope and minutes: %v", len(got), got)
	}
}

func TestSteering(t *testing.T) {
	for text, ok := range map[string]bool{
		"a": true, "": false, " ": false, "a\x07": false,
		strings.Repeat("é", 2000): true, strings.Repeat("é", 2001): false,
	} {
		if got := mission.CheckSteering(text) == nil; got != ok {
			t.Errorf("%.20q accepted: %v, want %v", text, got, ok)
		}
	}
}

func TestNormalizeFillsDefaultsButKeepsAnEmptyList(t *testing.T) {
	m := mission.Terms{Scope: " a\r\nb\n"}.Normalize()
	if m.Scope != "a\nb" || m.Minutes != 60 || len(m.Unasked) != 2 || m.Unasked[0] != mission.UnaskedReads || m.Unasked[1] != mission.UnaskedRoom {
		t.Errorf("got %+v", m)
	}
	if m = (mission.Terms{Unasked: []mission.Unasked{}}).Normalize(); m.Unasked == nil || len(m.Unasked) != 0 {
		t.Errorf("an empty list became %v: nothing unasked is not the default", m.Unasked)
	}
}

func TestTitle(t *testing.T) {
	for scope, want := range map[string]string{
		"Fix the date test. Then rest.": "Fix the date test",
		"Update to v1.2.3 now":          "Update to v1.2.3 now",
		"\n  One\nTwo":                  "One",
		"a\u202eb\x1bc\td":              "abc d",
		"":                              "",
		strings.Repeat("word ", 30):     strings.TrimSpace(strings.Repeat("word ", 11)) + "…",
		strings.Repeat("x", 70):         strings.Repeat("x", 59) + "…",
	} {
		if got := mission.Title(scope); got != want {
			t.Errorf("Title(%q) = %q, want %q", scope, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		got := mission.Title(rapid.String().Draw(t, "scope"))
		if n := len([]rune(got)); n > 60 || strings.ContainsAny(got, "\n\r\x00\u202e") {
			t.Fatalf("%q has %d characters, or something that cannot stand in a list", got, n)
		}
	})
}

func TestWhatIsAcceptedIsStableUnderNormalize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := good()
		m.Scope = rapid.String().Draw(t, "scope")
		if before, after := mission.CheckScope(m.Scope) == nil, mission.CheckScope(m.Normalize().Scope) == nil; before != after {
			t.Fatalf("the form says %v, the service %v", before, after)
		}
	})
}
