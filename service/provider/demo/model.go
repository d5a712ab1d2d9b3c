package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	sdk "github.com/coder/acp-go-sdk"
)

// endpointVar names the model service that demo:model asks, as the demo's entry
// among the agents does. The demo has none of its own.
const endpointVar = "REEVE_DEMO_BASE_URL"

// modelName is the model that it asks for. Only a stand-in has it.
const modelName = "demo-1"

// tokens are what the answers of a turn cost.
type tokens struct {
	Input      int `json:"input_tokens"`
	CacheRead  int `json:"cache_read_input_tokens"`
	CacheWrite int `json:"cache_creation_input_tokens"`
	Output     int `json:"output_tokens"`
}

// local says whether an endpoint is on this computer. The demo asks no other: it
// is there to be tried without a thought.
func local(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// model asks the mission's endpoint and says what it answers. Like other agents
// it asks once more where the service had an error of its own.
func (t *turn) model(text string) error {
	base := os.Getenv(endpointVar)
	if !local(base) {
		return t.say("There is no model on this computer that I could ask: the mission has no such endpoint.\n")
	}
	err := t.answer(base, text)
	var failed *sdk.RequestError
	if errors.As(err, &failed) && strings.Contains(failed.Message, "API Error: 500 ") {
		err = t.answer(base, text)
	}
	return err
}

// answer makes one request of the Messages API.
func (t *turn) answer(base, text string) error {
	body, err := json.Marshal(map[string]any{
		"model": modelName, "max_tokens": 1024, "stream": true,
		"messages": []any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": text}}}},
		"tools": []any{map[string]any{"name": "nothing", "description": "Does nothing.",
			"input_schema": map[string]any{"type": "object"}}},
		"tool_choice": map[string]any{"type": "none"}, // its tools are those of its directives
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(base, "/")+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	got, err := client.Do(req)
	switch {
	case t.ctx.Err() != nil:
		return t.ctx.Err()
	case err != nil:
		return broken(err.Error())
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		more := ""
		if after := got.Header.Get("Retry-After"); after != "" {
			more = "; try again in " + after + " seconds"
		}
		return refused(got.StatusCode, more)
	}
	if err := t.hear(got.Body); err != nil {
		if t.ctx.Err() != nil {
			return t.ctx.Err()
		}
		return broken(err.Error())
	}
	return t.say("\n")
}

// hear says the text of an answer as it comes, and counts what it cost.
func (t *turn) hear(stream io.Reader) error {
	for lines := bufio.NewReader(stream); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("the answer was cut off: %w", err)
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		var e struct {
			Type    string `json:"type"`
			Message struct {
				Model string `json:"model"`
				Usage tokens `json:"usage"`
			} `json:"message"`
			Delta struct {
				Text string `json:"text"`
			} `json:"delta"`
			Usage tokens `json:"usage"`
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		switch e.Type {
		case "message_start":
			u := e.Message.Usage
			t.asked = e.Message.Model
			t.cost.Input, t.cost.CacheRead, t.cost.CacheWrite = t.cost.Input+u.Input, t.cost.CacheRead+u.CacheRead, t.cost.CacheWrite+u.CacheWrite
		case "content_block_delta":
			if e.Delta.Text != "" {
				if err := t.say("%s", e.Delta.Text); err != nil {
					return err
				}
			}
		case "message_delta":
			t.cost.Output += e.Usage.Output
		case "message_stop":
			return nil
		}
	}
}

// told is the end of a turn, with the model and what it cost if one was asked.
func (t *turn) told() sdk.PromptResponse {
	r := sdk.PromptResponse{StopReason: sdk.StopReasonEndTurn}
	if t.asked == "" {
		return r
	}
	c := t.cost
	r.Usage = &sdk.Usage{InputTokens: c.Input, OutputTokens: c.Output, CachedReadTokens: &c.CacheRead, CachedWriteTokens: &c.CacheWrite,
		TotalTokens: c.Input + c.Output + c.CacheRead + c.CacheWrite}
	r.Meta = map[string]any{"quota": map[string]any{"model_usage": []any{map[string]any{"model": t.asked}}}}
	return r
}
