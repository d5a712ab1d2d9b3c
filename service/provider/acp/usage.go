package acp

import (
	"encoding/json"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/reevehq/reeve/app/mission"
)

// count adds what a prompt of the turn used. What is not known of one prompt is
// not known of the turn.
func (c *conn) count(t *turn, r sdk.PromptResponse) {
	m := usage(r.Usage)
	m.Provider, m.Model, m.ModelSource = c.name, c.model, c.modelSource
	quota(r.Meta, &m)
	t.calls(&m)
	if n := len(t.answers); n > 0 {
		m.ModelCalls = &n
		t.answers = nil
	}
	if t.prompts++; t.prompts == 1 {
		t.usage = m
		return
	}
	sum, err := t.usage.Add(m)
	if err != nil {
		sum = mission.Usage{Provider: c.name, Model: m.Model, ModelSource: m.ModelSource}
	}
	t.usage = sum
}

// spent is what the turn used until now.
func (t *turn) spent() mission.Usage {
	m, calls := t.usage, t.toolCalls
	m.ToolCalls, m.ToolCounts, m.Seconds = &calls, mission.CountsPartial, time.Since(t.began).Seconds()
	return m
}

// usage reads what the agent counted. The protocol does not say whether input
// contains the cached tokens; the total tells.
func usage(u *sdk.Usage) mission.Usage {
	var m mission.Usage
	if u == nil {
		return m
	}
	number := func(n *int) *int64 {
		if n == nil {
			return nil
		}
		v := int64(*n)
		return &v
	}
	m.Input, m.Output = number(&u.InputTokens), number(&u.OutputTokens)
	m.CacheRead, m.CacheWrite = number(u.CachedReadTokens), number(u.CachedWriteTokens)
	m.Semantics = mission.Uncached
	if u.TotalTokens == u.InputTokens+u.OutputTokens {
		m.Semantics = mission.IncludesCache
	}
	return m
}

// quota reads what some agents say beside the protocol: the model, and the
// tokens where the protocol's own count is missing. Whether its input contains
// cached tokens is not said; what is said is all of it.
func quota(meta map[string]any, m *mission.Usage) {
	var said struct {
		Quota struct {
			Tokens struct {
				Input  *int64 `json:"input_tokens"`
				Output *int64 `json:"output_tokens"`
			} `json:"token_count"`
			Models []struct {
				Model string `json:"model"`
			} `json:"model_usage"`
		} `json:"quota"`
	}
	b, err := json.Marshal(meta)
	if err != nil || json.Unmarshal(b, &said) != nil {
		return
	}
	q := said.Quota
	if n := len(q.Models); n > 0 && q.Models[n-1].Model != "" {
		m.Model, m.ModelSource = q.Models[n-1].Model, "prompt-result"
	}
	if m.Input == nil && q.Tokens.Input != nil {
		m.Input, m.Output, m.Semantics = q.Tokens.Input, q.Tokens.Output, mission.IncludesCache
	}
}
