package acp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/internal/child"
)

// openCodeRule makes opencode ask for everything. Its rules are matched from the
// last, so a pattern that nobody else writes comes last and matches every tool;
// the repository's settings and whatever would run programs of the checkout by
// itself stay out. No titles are made: the tokens would count for nobody.
const (
	openCodeRule   = `{"**":"ask","task":"deny"}`
	openCodeConfig = `{"autoupdate":false,"share":"disabled","lsp":false,"formatter":false,"default_agent":"build",` +
		`"agent":{"build":{"permission":` + openCodeRule + `},"plan":{"permission":` + openCodeRule + `},"title":{"disable":true}}`
)

// prepareOpenCode closes the HTTP server that opencode opens on loopback: by it
// anybody on the machine could answer a request, or have commands run. The
// mission's endpoint is set for the provider of its model.
func prepareOpenCode(spec provider.Spec) (extras, error) {
	failed := func(err error) (extras, error) {
		return extras{}, &provider.OpenError{Code: mission.LocalExecutionFailure, Err: err}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return failed(fmt.Errorf("find a free port: %w", err))
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close() // opencode takes it, or doesn't start
	s := openCodeServer{url: "http://127.0.0.1:" + port, password: rand.Text()}
	x := extras{args: []string{"--hostname", "127.0.0.1", "--port", port}, env: []string{"OPENCODE_SERVER_PASSWORD=" + s.password}, watch: s.watch}
	if spec.Endpoint == "" {
		return x, nil
	}
	name, _, ok := strings.Cut(spec.Model, "/")
	if !ok {
		const why = "opencode takes an endpoint only for a model that is named with its provider."
		return extras{}, &provider.OpenError{Code: mission.LocalExecutionFailure, Err: errors.New(why), Why: why + " Start the mission with a model such as anthropic/claude-sonnet-4-5."}
	}
	type object = map[string]any
	own, err := json.Marshal(object{name: object{"options": object{"baseURL": spec.Endpoint}}})
	if err != nil {
		return failed(err)
	}
	x.env = append(x.env, "OPENCODE_CONFIG_CONTENT="+openCodeConfig+`,"provider":`+string(own)+"}")
	return x, nil
}

// openCodeServer is the HTTP server of a running opencode. Its events say what
// the protocol does not: each model call, and that one waits to be tried again.
type openCodeServer struct{ url, password string }

// openCodePatience is how long opencode may wait by itself after an error.
const openCodePatience = 30 * time.Second

func (s openCodeServer) watch(ctx context.Context, c *conn) (func(), error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/event?directory="+url.QueryEscape(c.spec.Folder), nil)
	if err != nil {
		return nil, err
	}
	r.SetBasicAuth("opencode", s.password)
	reply, err := s.client().Do(r)
	if err != nil {
		return nil, fmt.Errorf("read the events of opencode: %w", err)
	}
	if reply.StatusCode != http.StatusOK {
		reply.Body.Close()
		return nil, fmt.Errorf("read the events of opencode: %s", reply.Status)
	}
	return func() {
		defer reply.Body.Close()
		lines := bufio.NewScanner(reply.Body)
		lines.Buffer(nil, child.MaxLine) // a part of a message may hold a whole file
		for lines.Scan() {
			if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok {
				s.event(c, data)
			}
		}
	}, nil
}

// event handles one event of this session.
func (s openCodeServer) event(c *conn, data []byte) {
	var head struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(data, &head) != nil || !slices.Contains([]string{"session.status", "session.error", "message.updated", "message.part.updated", "question.asked"}, head.Type) {
		return
	}
	var e struct {
		Properties struct {
			ID        string     `json:"id"`
			Questions []question `json:"questions"`
			Tool      struct {
				Call string `json:"callID"`
			} `json:"tool"`
			Part struct {
				Session string `json:"sessionID"`
				Call    string `json:"callID"`
				State   struct {
					Input json.RawMessage `json:"input"`
				} `json:"state"`
			} `json:"part"`
			Error struct {
				Data struct {
					Message string `json:"message"`
					Status  int    `json:"statusCode"`
				} `json:"data"`
			} `json:"error"`
			Session string `json:"sessionID"`
			Status  struct {
				Type    string `json:"type"`
				Attempt int    `json:"attempt"`
				Message string `json:"message"`
				Next    int64  `json:"next"`
			} `json:"status"`
			Info struct {
				ID      string   `json:"id"`
				Session string   `json:"sessionID"`
				Role    string   `json:"role"`
				Finish  string   `json:"finish"`
				Cost    *float64 `json:"cost"`
				Tokens  struct {
					Input     int64 `json:"input"`
					Output    int64 `json:"output"`
					Reasoning int64 `json:"reasoning"`
					Cache     struct {
						Read  int64 `json:"read"`
						Write int64 `json:"write"`
					} `json:"cache"`
				} `json:"tokens"`
			} `json:"info"`
		} `json:"properties"`
	}
	if json.Unmarshal(data, &e) != nil {
		return
	}
	p := e.Properties
	switch i := p.Info; {
	case i.Role == "assistant" && i.Session == string(c.session) && i.Finish != "":
		one, calls := i.Tokens, 1
		output := one.Output + one.Reasoning
		c.called(i.ID, mission.Usage{Semantics: mission.Uncached, Input: &one.Input, Output: &output,
			CacheRead: &one.Cache.Read, CacheWrite: &one.Cache.Write, ModelCalls: &calls, CostUSD: i.Cost})
	case p.Part.Session == string(c.session) && p.Part.Call != "" && len(p.Part.State.Input) > 2: // it has something in it
		c.input(p.Part.Call, p.Part.State.Input)
	case p.Session != string(c.session):
	case head.Type == "session.error":
		c.failed(fmt.Sprint(p.Error.Data.Status, " ", p.Error.Data.Message))
	case len(p.Questions) > 0:
		c.prompts.Go(func() { s.ask(c, p.ID, p.Tool.Call, p.Questions) })
	case p.Status.Type == "busy" || p.Status.Type == "idle":
		c.working(p.Status.Type == "busy")
	case p.Status.Type == "retry":
		at := time.UnixMilli(p.Status.Next)
		switch far := time.Until(at) > openCodePatience; {
		case far:
			c.giveUp(mission.RateLimited, at)
		case p.Status.Attempt > 1:
			c.giveUp(classifyText(p.Status.Message), time.Time{})
		}
	}
}

type question struct {
	Text    string `json:"question"`
	Options []struct {
		Label string `json:"label"`
	} `json:"options"`
	Multiple bool `json:"multiple"`
}

// ask puts the agent's questions to the person as one, and gives each its line of
// the answer, or all of them the whole when the lines don't match.
func (s openCodeServer) ask(c *conn, id, call string, list []question) {
	var q provider.Question
	var texts []string
	for _, one := range list {
		texts = append(texts, one.Text)
		q.Multi = q.Multi || one.Multiple
		for _, o := range one.Options {
			q.Options = append(q.Options, o.Label)
		}
	}
	q.Text = strings.Join(texts, "\n")
	text, answered := c.question(call, q)
	if !answered {
		// Nobody else ends a question, not even the denial of another call.
		s.post(c, "/question/"+id+"/reject", struct{}{})
		return
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	answers := make([][]string, len(list))
	for i := range list {
		answers[i] = []string{text}
		if len(lines) == len(list) {
			answers[i] = []string{lines[i]}
		}
	}
	s.post(c, "/question/"+id+"/reply", map[string]any{"answers": answers})
}

// post fails only when the agent is gone, or waits no longer.
func (s openCodeServer) post(c *conn, path string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		return
	}
	r, err := http.NewRequestWithContext(c.watched, http.MethodPost, s.url+path+"?directory="+url.QueryEscape(c.spec.Folder), bytes.NewReader(body))
	if err != nil {
		return
	}
	r.SetBasicAuth("opencode", s.password)
	r.Header.Set("Content-Type", "application/json")
	if reply, err := s.client().Do(r); err == nil {
		reply.Body.Close()
	}
}

func (s openCodeServer) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // and no proxy
}
