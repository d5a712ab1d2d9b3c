// Package modelstub stands for the paid model APIs in tests: it serves the
// Anthropic Messages API, the OpenAI Responses API and the Gemini API on loopback and answers as
// the prompt scripts it.
//
// Directives in the last user message that has any:
//
//	<<say:text>>            text; ends the turn
//	<<think:text>>          visible reasoning
//	<<tool:Name {json}>>    a tool call
//	<<slow:N:MS>>           N pieces of text with MS milliseconds between them
//	<<error:STATUS>>        an HTTP error, each time
//	<<error:STATUS:TIMES>>  an HTTP error TIMES times, then the next directive
//	<<limit:SECONDS>>       429, with the time when the limit ends
//	<<drop:N>>              N pieces of text, then the connection is cut
//	<<turn:N>>              what follows is for the N-th such message only
//
// Directives are taken in order, one for each request; those that are joined by
// & make one answer, as <<say:Look>>&<<tool:Read {…}>>&<<tool:Read {…}>> does.
// The number of tool results since the message picks the next one. Every answer
// costs 120 input, 30 cache read, 10 cache write and 42 output tokens; the
// Responses API knows no cache writes.
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

// Requests returns what clients asked of a model so far.
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

// asked is a request as either API puts it.
type asked struct {
	Request
	stream  bool
	tools   bool // it offers tools; requests without any are the client's own, for a title perhaps
	results int  // tool results since the last message with directives
	turn    int  // messages with directives
}

func (a *asked) text(s string) {
	a.Texts = append(a.Texts, s)
	if strings.Contains(s, opening) {
		a.Prompt, a.results = s, 0
		a.turn++
	}
}

func (a *asked) result(s string) {
	a.Results = append(a.Results, s)
	a.results++
}

func readMessages(body []byte) (asked, error) {
	var in struct {
		Model    string          `json:"model"`
		Stream   bool            `json:"stream"`
		System   json.RawMessage `json:"system"`
		Messages []message       `json:"messages"`
		Tools    []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return asked{}, err
	}
	a := asked{stream: in.Stream, tools: len(in.Tools) > 0}
	a.Model, a.System = in.Model, plain(in.System)
	for _, t := range in.Tools {
		a.Tools = append(a.Tools, t.Name)
	}
	for _, m := range in.Messages {
		if m.Role != "user" {
			continue
		}
		for _, b := range blocks(m.Content) {
			switch b.Type {
			case "text":
				a.text(b.Text)
			case "tool_result":
				a.result(plain(b.Content))
			}
		}
	}
	return a, nil
}

// ServeHTTP answers one request of a client.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	read, send := readMessages, stream
	switch {
	case strings.HasSuffix(r.URL.Path, "/v1/messages/count_tokens"):
		writeJSON(w, map[string]any{"input_tokens": InputTokens})
		return
	case strings.HasSuffix(r.URL.Path, "/v1/messages"):
	case strings.HasSuffix(r.URL.Path, "/responses") && r.Method == http.MethodPost:
		read, send = readResponses, streamResponses
	case strings.HasSuffix(r.URL.Path, ":streamGenerateContent"):
		read, send = readGemini, streamGemini
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	var a asked
	body, err := io.ReadAll(r.Body)
	if err == nil {
		a, err = read(body)
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	a.Method, a.Path = r.Method, r.URL.Path
	if a.Model == "" {
		a.Model = geminiModel(a.Path)
	}
	for name := range r.Header {
		a.Headers = append(a.Headers, name)
	}
	slices.Sort(a.Headers)
	s.mu.Lock()
	s.requests = append(s.requests, a.Request)
	s.serial++
	id := fmt.Sprintf("%04d", s.serial)
	s.mu.Unlock()

	script := a.Prompt
	if s.Script != nil {
		script = s.Script(a.Request)
	}
	steps, err := parse(script, max(a.turn, 1))
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	next := step{{kind: say, text: "ok"}}
	if a.tools {
		next = s.pick(script, steps, a.results)
	}
	switch p := next[0]; p.kind {
	case fail:
		// Some agents pass on only the text.
		text := map[int]string{http.StatusUnauthorized: "invalid API key, ", http.StatusTooManyRequests: "rate limit exceeded, "}[p.n]
		writeError(w, p.n, text+"as scripted")
	case limit:
		writeLimit(w, time.Duration(p.n)*time.Second)
	default:
		if a.stream {
			send(w, r, id, a.Model, next)
			return
		}
		writeJSON(w, whole(id, a.Model, next))
	}
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

// errorKinds are the words of both APIs for a status: a type, and the code that
// the Responses API adds.
var errorKinds = map[int][2]string{
	400: {"invalid_request_error", "invalid_request"}, 401: {"authentication_error", "invalid_api_key"},
	403: {"permission_error", "forbidden"}, 404: {"not_found_error", "model_not_found"},
	429: {"rate_limit_error", "rate_limit_exceeded"}, 500: {"api_error", "server_error"}, 529: {"overloaded_error", "server_is_overloaded"},
}

func writeError(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	kind := errorKinds[status]
	json.NewEncoder(w).Encode(object{"type": "error", "error": object{"type": kind[0], "code": kind[1], "message": text}})
}

// writeLimit says that a plan's allowance is used up and when it comes back.
func writeLimit(w http.ResponseWriter, wait time.Duration) {
	at := time.Now().Add(wait).Unix()
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Retry-After", fmt.Sprint(int(wait.Seconds())))
	h.Set("Anthropic-Ratelimit-Unified-Status", "rejected")
	h.Set("Anthropic-Ratelimit-Unified-Reset", fmt.Sprint(at))
	h.Set("X-Codex-Primary-Used-Percent", "100")
	h.Set("X-Codex-Primary-Window-Minutes", "300")
	h.Set("X-Codex-Primary-Reset-At", fmt.Sprint(at))
	w.WriteHeader(http.StatusTooManyRequests)
	json.NewEncoder(w).Encode(object{"type": "error", "error": object{
		"type": "usage_limit_reached", "message": "usage limit reached, as scripted", "plan_type": "pro", "resets_at": at, "resets_in_seconds": int(wait.Seconds())}})
}
