package acp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/conform"
)

// rawAgent is an agent with the habits of some real ones: it announces a call
// only by asking for it, offers lasting rules first, says its command in the
// title alone, and never reports the end of a denied call.
func rawAgent() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	var prompt json.RawMessage
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Prompt []struct{ Text string } `json:"prompt"`
			} `json:"params"`
			Result struct {
				Outcome struct{ OptionID string } `json:"outcome"`
			} `json:"result"`
		}
		json.Unmarshal(in.Bytes(), &m)
		switch m.Method {
		case "initialize":
			say(`a warning that is no message`)
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}}`, m.ID)
		case "session/new":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"sessionId":"raw"}}`, m.ID)
		case "session/prompt":
			prompt = m.ID
			var texts []string
			for _, b := range m.Params.Prompt {
				texts = append(texts, b.Text)
			}
			b, _ := json.Marshal(strings.Join(texts, "|"))
			say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"raw","update":{"sessionUpdate":"news","x":1}}}`)
			say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"raw","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%s}}}}`, b)
			say(strings.ReplaceAll(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"raw",
				"options":[{"optionId":"for-ever","name":"Always","kind":"allow_always"},{"optionId":"never","name":"Never","kind":"reject_always"},
				{"optionId":"once","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}],
				"toolCall":{"toolCallId":"c","title":"ls -l","kind":"execute","content":[{"type":"content","content":{"type":"text","text":"t"}}]}}}`, "\n", ""))
		default:
			say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"raw","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"chose %s"}}}}`, m.Result.Outcome.OptionID)
			say(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn","usage":{"inputTokens":5,"outputTokens":2,"cachedReadTokens":3,"totalTokens":7}}}`, prompt)
		}
	}
}

func TestRawAgent(t *testing.T) {
	w := newWorld(t)
	w.spec.Args = []string{"raw-agent"}
	w.spec.Instructions = filepath.Join(w.spec.PrivateDir, "instructions")
	if err := os.WriteFile(w.spec.Instructions, []byte("the rules"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := conform.Open(t, w.p, w.spec)
	turn := s.Do("first", s.Decide(func(e provider.PermissionRequested) provider.Answer {
		if e.Tool.Command != "ls -l" || e.Tool.Kind != "execute" || e.Tool.Cwd != w.folder {
			t.Errorf("asked %+v", e.Tool)
		}
		return provider.Answer{Allow: true}
	}))
	want(t, turn, mission.Succeeded, "", mission.NextWaiting)
	if turn.Text() != "the rules|firstchose once" || turn.Finished.Final != "chose once" {
		t.Errorf("text %q final %q", turn.Text(), turn.Finished.Final)
	}
	if u := turn.Finished.Outcome.Usage; *u.Input != 5 || *u.CacheRead != 3 || u.CacheWrite != nil || u.Semantics != mission.IncludesCache {
		t.Errorf("usage %+v", u)
	}
	turn = s.Do("second", s.Decide(func(provider.PermissionRequested) provider.Answer { return provider.Answer{} }))
	if turn.Text() != "secondchose no" {
		t.Errorf("text %q", turn.Text())
	}
	if done := conform.Of[provider.ToolFinished](turn); len(done) != 1 || done[0].Status != "denied" {
		t.Errorf("finished %+v", done)
	}
}
