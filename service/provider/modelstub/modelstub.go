// Package modelstub stands for the paid model API in tests: it serves the
// Anthropic Messages API on loopback and answers as the prompt scripts it.
//
// Directives in the last user message that has any:
//
//	<<say:text>>            text; ends the turn
//	<<think:text>>          visible reasoning
//	<<tool:Name {json}>>    a tool call
//	<<slow:N:MS>>           N pieces of text with MS milliseconds between them
//	<<error:STATUS>>        an HTTP error, each time
//	<<error:STATUS:TIMES>>  an HTTP error TIMES times, then the next directive
//	<<drop:N>>              N pieces of text, then the connection is cut
//	<<turn:N>>              what follows is for the N-th such message only
//
// Directives are taken in order, one for each request; those that are joined by
// & make one answer, as <<say:Look>>&<<tool:Read {…}>>&<<tool:Read {…}>> does.
// The number of tool results since the message picks the next one. Every answer
// costs 120 input, 30 cache read, 10 cache write and 42 output tokens.
package modelstub

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Tokens that every answer costs.
const (
	InputTokens      = 120
	CacheReadTokens  = 30
	CacheWriteTokens = 10
	OutputTokens     = 42
)

// Request is what a client sent.
type Request struct {
	Method  string
	Path    string
	Headers []string // names only, sorted; the values hold keys
	Model   string
	System  string
	Prompt  string   // the last user message with directives
	Texts   []string // every text of user messages, in order
	Results []string // every tool result, in order
	Tools   []string // names of the tools on offer
}

// Server is a running stand-in. Close it.
type Server struct {
	// Script, when set, gives the directives that answer a request instead of
	// those in its prompt. Set it before the first request.
	Script func(Request) string

	url      string
	http     *http.Server
	done     chan struct{}
	mu       sync.Mutex
	requests []Request
	hits     map[string]int // of an <<error:S:N>>, by prompt and place
	serial   int
}

// New starts a server on a free loopback port.
func New() (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the model API: %w", err)
	}
	s := &Server{url: "http://" + l.Addr().String(), done: make(chan struct{}), hits: map[string]int{}}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.done)
		s.http.Serve(l) // always ErrServerClosed after Close
	}()
	return s, nil
}

// URL is the base URL, without a slash at its end.
func (s *Server) URL() string { return s.url }

// Close cuts every connection and stops the server.
func (s *Server) Close() {
	s.http.Close()
	<-s.done
}

// Requests returns what clients sent to /v1/messages so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type block struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"`
}

// blocks reads content, which is a string or a list.
func blocks(raw json.RawMessage) []block {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []block{{Type: "text", Text: text}}
	}
	var list []block
	json.Unmarshal(raw, &list)
	return list
}

func plain(raw json.RawMessage) string {
	var b strings.Builder
	for _, x := range blocks(raw) {
		b.WriteString(x.Text)
	}
	return b.String()
}

// ServeHTTP answers one request of a client.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/v1/messages/count_tokens"):
		writeJSON(w, map[string]any{"input_tokens": InputTokens})
		return
	case !strings.HasSuffix(r.URL.Path, "/v1/messages"):
		w.WriteHeader(http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(r.Body)
	var in struct {
		Model    string            `json:"model"`
		Stream   bool              `json:"stream"`
		System   json.RawMessage   `json:"system"`
		Messages []message         `json:"messages"`
		Tools    []json.RawMessage `json:"tools"`
	}
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	req := Request{Method: r.Method, Path: r.URL.Path, Model: in.Model, System: plain(in.System)}
	for name := range r.Header {
		req.Headers = append(req.Headers, name)
	}
	slices.Sort(req.Headers)
	for _, t := range in.Tools {
		var named struct{ Name string }
		json.Unmarshal(t, &named)
		req.Tools = append(req.Tools, named.Name)
	}
	results, turn := 0, 0
	for _, m := range in.Messages {
		if m.Role != "user" {
			continue
		}
		for _, b := range blocks(m.Content) {
			switch b.Type {
			case "text":
				req.Texts = append(req.Texts, b.Text)
				if strings.Contains(b.Text, opening) {
					req.Prompt, results, turn = b.Text, 0, turn+1
				}
			case "tool_result":
				req.Results = append(req.Results, plain(b.Content))
				results++
			}
		}
	}
	s.mu.Lock()
	s.requests = append(s.requests, req)
	s.serial++
	id := fmt.Sprintf("%04d", s.serial)
	s.mu.Unlock()

	script := req.Prompt
	if s.Script != nil {
		script = s.Script(req)
	}
	steps, err := parse(script, max(turn, 1))
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	next := step{{kind: say, text: "ok"}}
	if len(in.Tools) > 0 {
		next = s.pick(script, steps, results)
	}
	if p := next[0]; p.kind == fail {
		writeError(w, p.n, "as scripted")
		return
	}
	if in.Stream {
		stream(w, r, id, in.Model, next)
		return
	}
	writeJSON(w, whole(id, in.Model, next))
}

// pick passes over errors that were answered often enough.
func (s *Server) pick(script string, steps []step, results int) step {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		next, place := choose(steps, results)
		p := next[0]
		if p.kind != fail || p.times == 0 {
			return next
		}
		key := fmt.Sprint(place, script)
		if s.hits[key] < p.times {
			s.hits[key]++
			return next
		}
		steps = slices.Delete(slices.Clone(steps), place, place+1)
		script += "+" // the next error has its own count
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

var errorTypes = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
	429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
}

func writeError(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]any{"type": errorTypes[status], "message": text}})
}
