package demo

import (
	"context"
	"encoding/json"
	"sync"

	sdk "github.com/coder/acp-go-sdk"
)

// steerMethod takes instructions into a running turn, as agents do whose clients
// may send more at any time. The protocol has no verb for it.
const steerMethod = "_session/steering"

// inbox holds what came for the running turn.
type inbox struct {
	mu    sync.Mutex
	open  bool
	texts []string
}

// begin opens the inbox for a turn.
func (b *inbox) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open, b.texts = true, nil
}

// put says whether the turn will read the text.
func (b *inbox) put(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open {
		b.texts = append(b.texts, text)
	}
	return b.open
}

// take returns what came since the last time. A last look that finds nothing
// closes the inbox: what comes later was never promised to be read.
func (b *inbox) take(last bool) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	texts := b.texts
	b.texts = nil
	if last && len(texts) == 0 {
		b.open = false
	}
	return texts
}

// end closes the inbox, however the turn ended.
func (b *inbox) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = false
}

// HandleExtensionMethod implements sdk.ExtensionMethodHandler.
func (a *agent) HandleExtensionMethod(_ context.Context, method string, params json.RawMessage) (any, error) {
	if method != steerMethod {
		return nil, sdk.NewMethodNotFound(method)
	}
	var r struct {
		Session string             `json:"sessionId"`
		Prompt  []sdk.ContentBlock `json:"prompt"`
	}
	if err := json.Unmarshal(params, &r); err != nil {
		return nil, sdk.NewInvalidParams(map[string]any{"error": err.Error()})
	}
	a.mu.Lock()
	known := a.current.ID == r.Session
	a.mu.Unlock()
	text := ""
	for _, b := range r.Prompt {
		if b.Text != nil {
			text += b.Text.Text
		}
	}
	if !known || text == "" {
		return nil, sdk.NewInvalidParams(map[string]any{"session": r.Session})
	}
	outcome := "promptRequired" // it begins no turn of its own
	if a.inbox.put(text) {
		outcome = "injected"
	}
	return map[string]any{"outcome": outcome}, nil
}

// listen follows what came in the meantime. After a last time nothing is taken in.
func (t *turn) listen(last bool) error {
	for {
		texts := t.agent.inbox.take(last)
		t.ask.steering = append(t.ask.steering, texts...)
		if err := t.steered(texts); err != nil || len(texts) == 0 {
			return err
		}
	}
}
