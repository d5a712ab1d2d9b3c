package wire

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLinesOfEveryLength(t *testing.T) {
	fits := strings.Repeat("x", MaxLine)
	for name, r := range map[string]io.Reader{
		"whole":        strings.NewReader("a\n\n" + fits + "\nz\n" + fits + "y\n"),
		"half by half": iotest.HalfReader(strings.NewReader("a\n\n" + fits + "\nz\n" + fits + "y\n")),
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLineReader(r)
			for _, want := range []string{"a", "", fits, "z"} {
				got, err := l.Next()
				if err != nil || string(got) != want {
					t.Fatalf("Next() = %d bytes, %v; want %d bytes", len(got), err, len(want))
				}
			}
			var long *TooLongError
			if _, err := l.Next(); !errors.As(err, &long) || len(long.Prefix) != 4<<10 {
				t.Fatalf("a line of MaxLine+1: %v", err)
			}
		})
	}
}

func TestLinesThatAreNoText(t *testing.T) {
	l := NewLineReader(strings.NewReader("a\x00b\n\xff\xfe\nok\ncut off"))
	for range 2 {
		if _, err := l.Next(); !errors.Is(err, ErrNotText) {
			t.Fatalf("want ErrNotText, got %v", err)
		}
	}
	if got, err := l.Next(); err != nil || string(got) != "ok" {
		t.Fatalf("the reader does not go on: %q, %v", got, err)
	}
	if _, err := l.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("a line that was cut off: %v", err)
	}
}

func TestEncodeKeepsToALine(t *testing.T) {
	if _, err := Encode(strings.Repeat("x", MaxLine-2)); err != nil {
		t.Fatal(err)
	}
	var long *TooLongError
	if _, err := Encode(strings.Repeat("x", MaxLine-1)); !errors.As(err, &long) {
		t.Fatalf("want a TooLongError, got %v", err)
	}
	if b, _ := Encode("<a>\n"); string(b) != "\"<a>\\n\"\n" {
		t.Fatalf("got %q", b)
	}
}

func TestDecodeRequest(t *testing.T) {
	long := strings.Repeat("i", MaxID+1)
	for _, c := range []struct{ line, id, says string }{
		{`{"version":1,"id":"1","method":"m"}`, "1", ""},
		{`{"version":1,"id":"1","method":"m","params":null,"more":[1]}`, "1", ""},
		{`{"version":1,"id":"` + long[1:] + `","method":"m"}`, long[1:], ""},
		{``, "", "not a JSON object"},
		{`garbage`, "", "not a JSON object"},
		{`[1]`, "", "must be a JSON object"},
		{`null`, "", "id is missing or empty"},
		{`{"id":"7","method":`, "7", "not a JSON object"},
		{`{"params":{"id":"no"},"x":[{"id":"no"}],"id":"7"`, "7", "not a JSON object"},
		{`{"id":"","method":"m"}`, "", "id is missing or empty"},
		{`{"id":5,"method":"m"}`, "", "id must be a string"},
		{`{"id":"` + long + `","method":"m"}`, "", "id is longer than 128 bytes"},
		{`{"id":"a\u0000b","method":"m"}`, "", "id holds a NUL"},
		{`{"id":"1"}`, "1", "method is missing or empty"},
		{`{"id":"1","method":7}`, "1", "method must be a string"},
		{`{"version":"1","id":"1","method":"m"}`, "1", "version must be a number"},
		{`{"version":1.5,"id":"1","method":"m"}`, "1", "version must be a whole number"},
		{`{"id":"1","method":"m","params":[1]}`, "1", "params must be an object"},
		{`{"id":"1","method":"m","params":"x"}`, "1", "params must be an object"},
		{"{\"id\":\"1\",\"method\":\"m\xff\"}", "1", "not UTF-8"},
	} {
		r, err := DecodeRequest([]byte(c.line))
		if r.ID != c.id {
			t.Errorf("%.60s: id %q, want %q", c.line, r.ID, c.id)
		}
		if got := errText(err); (c.says == "") != (err == nil) || !strings.Contains(got, c.says) {
			t.Errorf("%.60s: says %q, want %q", c.line, got, c.says)
		}
	}
}

func TestDecodeParamsNamesTheField(t *testing.T) {
	for params, says := range map[string]string{
		``:                          "",
		`{"minutes":15,"zzz":true}`: "",
		`{"minutes":"x"}`:           "minutes must be a number",
		`{"minutes":1.5}`:           "minutes must be a whole number within range",
		`{"minutes":1e400}`:         "minutes must be a whole number within range",
		`{"folder":7}`:              "folder must be a string",
		`{"budget":7}`:              "budget must be an object",
		`{"budget":{"turns":"x"}}`:  "budget.turns must be a number",
		`{"allow_unasked":"x"}`:     "allow_unasked must be a list",
		`{"env":[]}`:                "env must be an object",
		`{"scope":"a\u0000"}`:       "scope holds a NUL",
		`{"scope":"a\\u0000"}`:      "",
		`{"env":{"A":"\u0000"}}`:    "env.A holds a NUL",
	} {
		var p MissionStartParams
		err := DecodeParams(json.RawMessage(params), &p)
		if got := errText(err); (says == "") != (err == nil) || !strings.Contains(got, says) {
			t.Errorf("%s: says %q, want %q", params, got, says)
		}
	}
}

func errText(e *Error) string {
	if e == nil {
		return ""
	}
	return e.Message
}

func FuzzDecodeRequest(f *testing.F) {
	for _, s := range []string{
		`{"version":1,"id":"1","method":"daemon.negotiate"}`,
		`{"version":2,"id":"1","method":"mission.start","params":{"provider":"claude","folder":"/x","scope":"s","minutes":60,"budget":{"turns":3}}}`,
		`{"version":2,"id":"2","method":"watch","params":{"topics":["missions"],"cursors":{"missions":{"generation":1,"sequence":9}}}}`,
		`{"id":5}`, `{"id":"a","params":[`, `[[[[`, `null`, `"`, "\x00\xff", `{"id":"\ud800"}`, `{"id":"1","id":2,"method":{}}`,
		`{"params":{"id":"x"},"id":"y"`, "{\"id\":\"\\u0000\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := DecodeRequest(line)
		if r.ID != "" && !validID(r.ID) {
			t.Fatalf("salvaged a bad id %q", r.ID)
		}
		if err != nil {
			if err.Code != CodeInvalidParams {
				t.Fatalf("code %s", err.Code)
			}
			return
		}
		if r.ID == "" || r.Method == "" || len(r.Params) > 0 && !json.Valid(r.Params) {
			t.Fatalf("accepted %q", line)
		}
		var p MissionStartParams
		_ = DecodeParams(r.Params, &p)
		again, encErr := Encode(r)
		if encErr != nil {
			return
		}
		if r2, err := DecodeRequest(again[:len(again)-1]); err != nil || r2.ID != r.ID || r2.Method != r.Method {
			t.Fatalf("%q does not survive: %v", line, err)
		}
	})
}
