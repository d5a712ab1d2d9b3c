package effects_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/reevehq/reeve/service/internal/effects"
	"github.com/reevehq/reeve/service/internal/store"
)

func digest(t testing.TB, input string) string {
	t.Helper()
	d, err := effects.Digest([]byte(input))
	if err != nil {
		t.Fatalf("%.100q: %v", input, err)
	}
	return d
}

func TestDigest(t *testing.T) {
	sum := sha256.Sum256([]byte(`{"a":[1,"é"],"b":null}`))
	if got := digest(t, ` { "b" : null, "a":[ 1.0, "\u00e9" ] }`); got != hex.EncodeToString(sum[:]) {
		t.Errorf("it is not the SHA-256 of the RFC 8785 form: %s", got)
	}
	if digest(t, "") != digest(t, "{}") {
		t.Error("no input is not {}")
	}
	seen := map[string]string{}
	for _, input := range []string{
		`{}`, `[]`, `null`, `""`, `0`, `-0`, `{"a":1}`, `{"a":2}`, `{"b":1}`, `{"a":"1"}`, `{"a":[1]}`, `{"a":{"b":1}}`, `{"a":{"b":2}}`, `{"a":1,"b":1}`, `{"a":null}`,
		`{"n":9007199254740992}`, `{"n":9007199254740993}`, `{"n":9007199254740993.5}`, `{"n":0.1}`, `{"n":0.10000000000000000001}`, `{"A":1}`, `{"a ":1}`, `["a","b"]`, `["b","a"]`,
	} {
		d := digest(t, input)
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have one digest", input, other)
		}
		seen[d] = input
	}
	for _, bad := range []string{`{`, `x`, `{"a":1}{}`, `{"a":1,"a":1}`, `{"a":"\ud800"}`, "\"\xff\"", `{"n":1e999}`, strings.Repeat("[", 1<<20)} {
		if d, err := effects.Digest([]byte(bad)); err == nil {
			t.Errorf("%.40q has the digest %s", bad, d)
		}
	}
}

// The order of keys and white space don't matter, every other change does.
func TestDigestFollowsTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.MapOfN(rapid.String(), rapid.OneOf(rapid.String().AsAny(), rapid.Int32().AsAny(), rapid.Bool().AsAny()), 1, 6).Draw(t, "input")
		compact, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		indented, err := json.MarshalIndent(value, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		a, err := effects.Digest(compact)
		b, err2 := effects.Digest(indented)
		if err != nil || err2 != nil || a != b {
			t.Fatalf("%s (%v), %s (%v)", a, err, b, err2)
		}
		key := rapid.SampledFrom(slices.Sorted(maps.Keys(value))).Draw(t, "changed")
		if rapid.Bool().Draw(t, "removed") {
			delete(value, key)
		} else {
			value[key] = map[string]any{"was": value[key]}
		}
		changed, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := effects.Digest(changed); err != nil || c == a {
			t.Fatalf("%s and %s: %s, %v", compact, changed, c, err)
		}
	})
}

// What is kept is JSON within the limit, and whole when it fits: read back it is
// the value, or a beginning of its text. A change beyond what is kept is another
// request all the same.
func TestKept(t *testing.T) {
	db := open(t)
	for name, c := range map[string]struct {
		letter string
		n      int
		cut    bool
	}{
		"short": {"<&>", 10, false}, "full": {"x", effects.MaxKept - 2, false}, "one more": {"x", effects.MaxKept - 1, true}, "long": {"x", 1 << 17, true},
		"quotes": {`\"`, 1 << 16, true}, "separators": {"\u2028", 1 << 15, true}, "wider": {"x😀", 1 << 14, true},
	} {
		fresh(t, db, func(tx *store.Tx) {
			whole := json.RawMessage(`"` + strings.Repeat(c.letter, c.n) + `"`)
			r := wants("1")
			r.Input = whole
			if _, _, err := effects.Prepare(tx, r); err != nil {
				t.Fatal(name, err)
			}
			r.Input = json.RawMessage(string(whole[:len(whole)-1]) + `!"`)
			if _, _, err := effects.Prepare(tx, r); err == nil {
				t.Errorf("%s: another end is the same input", name)
			}
			if _, _, err := effects.Complete(tx, run, "e-1", effects.End{Result: whole}); err != nil {
				t.Fatal(name, err)
			}
			got, _, err := effects.Get(tx, "e-1")
			if err != nil || got.Cut != c.cut || got.ResultCut != c.cut || string(got.Input) != string(got.Result) {
				t.Fatalf("%s: cut %v %v, %v", name, got.Cut, got.ResultCut, err)
			}
			if !c.cut {
				if string(got.Input) != string(whole) {
					t.Errorf("%s: %.100s", name, got.Input)
				}
				return
			}
			var begin string
			if err := json.Unmarshal(got.Input, &begin); err != nil || !strings.HasPrefix(string(whole), begin) || !utf8.ValidString(begin) {
				t.Errorf("%s: %v, %.100s", name, err, got.Input)
			}
			if len(got.Input) > effects.MaxKept || len(got.Input) < effects.MaxKept-6 {
				t.Errorf("%s: %d bytes are kept", name, len(got.Input))
			}
		})
	}
	fresh(t, db, func(tx *store.Tx) {
		if _, _, err := effects.Prepare(tx, wants("1")); err != nil {
			t.Fatal(err)
		}
		r, _, err := effects.Complete(tx, run, "e-1", effects.End{Error: strings.Repeat("é", 1<<20)})
		if err != nil || len(r.Error) > 4<<10 || !utf8.ValidString(r.Error) || r.State != effects.Failed {
			t.Errorf("an error of %d bytes, %v", len(r.Error), err)
		}
	})
}
