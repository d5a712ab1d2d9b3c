package approval_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/approval"
	"pgregory.net/rapid"
)

// TestDigestVectors holds the digest to values that never change: they are in
// people's audit logs. testdata/digests.json is also for other implementations.
func TestDigestVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/digests.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name     string            `json:"name"`
		Envelope approval.Envelope `json:"envelope"`
		SHA256   string            `json:"sha256"`
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 5 {
		t.Fatalf("only %d vectors", len(vectors))
	}
	for _, v := range vectors {
		got, err := approval.Digest(v.Envelope)
		if err != nil || got != v.SHA256 {
			t.Errorf("%s: %s (%v), want %s", v.Name, got, err, v.SHA256)
		}
	}
}

func envelope() approval.Envelope {
	return approval.Envelope{ID: "ap_1", Kind: approval.ToolCall, Mission: "m_1", Attempt: "at_1", Turn: 4, Subject: approval.Subject{
		Title: "Run a command", Tool: "Bash", Server: "none", Command: "go test ./...", Cwd: "/src", Reason: "to see", Diff: "+a\n",
		Env: map[string]string{"A": "1", "B": "2"}, Paths: []string{"/src/a", "/src/b"}, Input: json.RawMessage(`{"a":1,"b":[true,null]}`),
		Question: &approval.Question{Text: "Which?", Options: []string{"x", "y"}, Multi: true},
		Mission: &approval.MissionSubject{Provider: "claude", ProviderPath: "/bin/claude", ProviderVersion: "1", Model: "m", Endpoint: "https://a",
			Folder: "/src", Scope: "s", Minutes: 15, Budget: approval.Budget{Turns: 1, Tokens: 2, CostUSD: 3}, Limits: approval.Limits{MemoryMB: 4, CPUMinutes: 5}, Unasked: []string{"reads"}, Worktree: true,
			Instructions: "i", Prompt: "p", EnvNames: []string{"PATH"}, GitExecutableConfig: []string{"core.fsmonitor=x"}, Notes: []string{"n"}},
	}}
}

func mustDigest(t interface{ Fatalf(string, ...any) }, e approval.Envelope) string {
	d, err := approval.Digest(e)
	if err != nil {
		t.Fatalf("digest: %v", err)
	}
	return d
}

// TestEveryFieldCounts changes each field of an envelope by reflection, so that
// a new field cannot be forgotten.
func TestEveryFieldCounts(t *testing.T) {
	before := mustDigest(t, envelope())
	seen := map[string]string{before: "the original"}
	changed := 0
	var walk func(at string, pick func(*approval.Envelope) reflect.Value)
	walk = func(at string, pick func(*approval.Envelope) reflect.Value) {
		e := envelope()
		v := pick(&e)
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(at+"."+v.Type().Field(i).Name, func(e *approval.Envelope) reflect.Value { return pick(e).Field(i) })
			}
			return
		case reflect.Pointer:
			walk(at, func(e *approval.Envelope) reflect.Value { return pick(e).Elem() })
			v.SetZero()
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Int, reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.Float64:
			v.SetFloat(v.Float() + 0.5)
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Map:
			m := maps.Clone(v.Interface().(map[string]string))
			m["A"] = "other"
			v.Set(reflect.ValueOf(m))
		case reflect.Slice:
			if raw, ok := v.Interface().(json.RawMessage); ok {
				v.SetBytes(bytes.Replace(raw, []byte("1"), []byte("2"), 1))
				break
			}
			v.Set(reflect.Append(v, reflect.ValueOf("more")))
		default:
			t.Fatalf("%s: the test knows no %s", at, v.Kind())
		}
		after := mustDigest(t, e)
		if other, same := seen[after]; same {
			t.Errorf("%s was changed, and the digest is that of %s", at, other)
		}
		seen[after] = at
		changed++
	}
	walk("envelope", func(e *approval.Envelope) reflect.Value { return reflect.ValueOf(e).Elem() })
	if changed < 35 {
		t.Errorf("only %d fields were changed", changed)
	}
}

func TestKeyOrderDoesNotCount(t *testing.T) {
	a, b := envelope(), envelope()
	b.Subject.Input = json.RawMessage("{ \"b\" : [true, null],\n \"a\": 1.0 }")
	b.Subject.Env = map[string]string{"B": "2", "A": "1"}
	if mustDigest(t, a) != mustDigest(t, b) {
		t.Error("the order of keys, or white space, changed the digest")
	}
}

func withInput(input string) approval.Envelope {
	e := envelope()
	e.Subject.Input = json.RawMessage(input)
	return e
}

// TestInputsThatMustDiffer lists pairs that a careless canonical form makes equal.
func TestInputsThatMustDiffer(t *testing.T) {
	long := `{"x":"` + strings.Repeat("a", 70_000) + `","end":"%s"}`
	blob := fmt.Sprintf(long, "rm")
	for _, pair := range [][2]string{
		{`{"id":9007199254740992}`, `{"id":9007199254740993}`},
		{`{"id":0.1}`, `{"id":0.10000000000000000001}`},
		{`{"id":0}`, `{"id":-0}`},
		{`{"id":1e400}`, `{"id":1e401}`},
		{`{"id":"1"}`, `{"id":1}`},
		{`{"id":9007199254740993}`, `{"input_text":"{\"id\":9007199254740993}"}`},
		{`{"id":9007199254740993}`, `"{\"id\":9007199254740993}"`},
		{`null`, `"null"`},
		{fmt.Sprintf(long, "ls"), blob}, // case 19: the harm stands at the end
	} {
		if mustDigest(t, withInput(pair[0])) == mustDigest(t, withInput(pair[1])) {
			t.Errorf("%.60s and %.60s have one digest", pair[0], pair[1])
		}
	}
}

func TestWhatCannotBeDigestedIsRefused(t *testing.T) {
	bad := map[string]approval.Envelope{
		"the same key twice":     withInput(`{"a":1,"a":2}`),
		"half a surrogate pair":  withInput(`{"a":"\ud800"}`),
		"not JSON":               withInput(`{"a":`),
		"two values":             withInput(`{} {}`),
		"input that isn't UTF-8": withInput("{\"a\":\"\xff\"}"),
	}
	e := envelope()
	e.Subject.Command = "rm \xff"
	bad["a command that isn't UTF-8"] = e
	e = envelope()
	e.Subject.Env = map[string]string{"\xff": ""}
	bad["a variable that isn't UTF-8"] = e
	for name, e := range bad {
		if d, err := approval.Digest(e); err == nil {
			t.Errorf("%s: got %s", name, d)
		}
	}
}

func TestDigestOfAnyCommandIsItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := envelope(), envelope()
		a.Subject.Command = rapid.String().Draw(t, "a")
		b.Subject.Command = rapid.String().Draw(t, "b")
		if same := mustDigest(t, a) == mustDigest(t, b); same != (a.Subject.Command == b.Subject.Command) {
			t.Fatalf("%q and %q: same digest %v", a.Subject.Command, b.Subject.Command, same)
		}
		number := rapid.Int64()
		x, y := number.Draw(t, "x"), number.Draw(t, "y")
		if same := mustDigest(t, withInput(fmt.Sprint(x))) == mustDigest(t, withInput(fmt.Sprint(y))); same != (x == y) {
			t.Fatalf("%d and %d: same digest %v", x, y, same)
		}
	})
}
