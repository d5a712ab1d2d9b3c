package modelstub

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	script := `Scope: <<say:Look>>&<<tool:Read {"a":">>"}>>&<<tool:Read {"b":1}>> <<tool:Bash {"c":{"d":"<<"}}>> <<slow:3:5>> <<other:x>>`
	steps, err := parse(script, 1)
	if err != nil || len(steps) != 3 || len(steps[0]) != 3 || string(steps[0][1].input) != `{"a":">>"}` || steps[1][0].name != "Bash" || steps[2][0].ms != 5 {
		t.Fatalf("%+v, %v", steps, err)
	}
	for results, place := range map[int]int{0: 0, 2: 1, 3: 2} {
		if _, got := choose(steps, results); got != place {
			t.Errorf("after %d results comes step %d, want %d", results, got, place)
		}
	}
	turns := `<<say:any>> <<turn:2>> <<say:second>>`
	for turn, want := range map[int]string{1: "any", 2: "second", 3: "any"} {
		if steps, err := parse(turns, turn); err != nil || len(steps) != 1 || steps[0][0].text != want {
			t.Errorf("turn %d: %+v, %v", turn, steps, err)
		}
	}
	for _, bad := range []string{"<<tool:Read>>", "<<tool:Read {>>", "<<slow:x>>", "<<say:open", `<<tool:Read {} >>`, "<<turn:x>>"} {
		if _, err := parse(bad, 1); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func post(t *testing.T, s *Server, body string) (int, string) {
	t.Helper()
	r, err := http.Post(s.URL()+"/v1/messages?beta=true", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func TestServer(t *testing.T) {
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer s.Close()
	ask := func(text, more string) string {
		return `{"model":"m","stream":true,"system":"sys","tools":[{"name":"T"}],"messages":[{"role":"user","content":"` + text + `"}` + more + `]}`
	}
	result := `,{"role":"assistant","content":[]},{"role":"user","content":[{"type":"tool_result","content":"out"}]}`
	if code, body := post(t, s, ask(`<<tool:T {\"x\":1}>> <<say:end>>`, "")); code != 200 || !strings.Contains(body, `"name":"T"`) || !strings.Contains(body, `"stop_reason":"tool_use"`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := post(t, s, ask(`<<tool:T {\"x\":1}>> <<say:end>>`, result)); code != 200 || !strings.Contains(body, `"text":"end"`) {
		t.Errorf("%d %s", code, body)
	}
	for _, want := range []int{429, 429, 200} {
		if code, body := post(t, s, ask("<<error:429:2>> <<say:well>>", "")); code != want {
			t.Errorf("%d %s, want %d", code, body, want)
		}
	}
	r := s.Requests()
	if len(r) != 5 || r[1].Results[0] != "out" || r[0].System != "sys" || r[0].Tools[0] != "T" || r[0].Model != "m" {
		t.Errorf("requests %+v", r)
	}
}
