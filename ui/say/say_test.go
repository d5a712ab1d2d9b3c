package say

import "testing"

type table map[string]string

func (t table) Text(key string) string {
	if s, ok := t[key]; ok {
		return s
	}
	return key
}

func (t table) Plural(key string, n int) string {
	if s, ok := t[key]; ok && n != 1 {
		return s
	}
	if s, ok := t["1 "+key]; ok && n == 1 {
		return s
	}
	return key
}

func TestEnglish(t *testing.T) {
	for got, want := range map[string]string{
		T("Stop"): "Stop", T("100 %"): "100 %", T("in turn %d", 3): "in turn 3", N(1, "%d tool", "%d tools"): "1 tool",
		N(0, "%d tool", "%d tools"): "0 tools", N(2, "%d line of %s", "%d lines of %s", "x"): "2 lines of x", Word(Key("Deny")): "Deny", As("a secret", "Keep it"): "Keep it",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestLanguage(t *testing.T) {
	In(table{"Deny": "Ablehnen", "in turn %d of %s": "in %[2]s, Runde %[1]d", "%d tools": "%d Werkzeuge", "1 %d tools": "%d Werkzeug", "a secret: Keep it": "Aufbewahren"})
	defer In(nil)
	for got, want := range map[string]string{
		Word("Deny"): "Ablehnen", T("Allow"): "Allow", T("in turn %d of %s", 3, "x"): "in x, Runde 3", N(1, "%d tool", "%d tools"): "1 Werkzeug",
		N(5, "%d tool", "%d tools"): "5 Werkzeuge", N(1, "%d line", "%d lines"): "1 line", As("a secret", "Keep it"): "Aufbewahren", As("no", "Keep it"): "Keep it", Word(""): "",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
