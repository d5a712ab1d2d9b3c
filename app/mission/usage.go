package mission

import (
	"fmt"
	"math"
)

// How a provider counts cached input.
const (
	IncludesCache = "includes-cache" // input contains the cached tokens
	Uncached      = "uncached"       // input is what the cache did not serve
)

// How complete the tool counts are.
const (
	CountsComplete = "provider-stream"
	CountsPartial  = "partial"
)

// Usage is what a turn or a mission used, as the provider counts it. Nil means
// unknown, which is not zero.
type Usage struct {
	Provider    string   `json:"provider"`
	Model       string   `json:"model"`        // the model actually used
	ModelSource string   `json:"model_source"` // where that name came from
	Semantics   string   `json:"semantics"`    // includes-cache or uncached
	Input       *int64   `json:"input"`
	Output      *int64   `json:"output"`
	CacheRead   *int64   `json:"cache_read"`
	CacheWrite  *int64   `json:"cache_write"`
	ModelCalls  *int     `json:"model_calls"`
	ToolCalls   *int     `json:"tool_calls"`
	ToolCounts  string   `json:"tool_counts"` // provider-stream or partial
	CostUSD     *float64 `json:"cost_usd"`
	Seconds     float64  `json:"seconds"`
}

// Add returns the sum. The zero Usage changes nothing; otherwise a part that is
// unknown on either side is unknown in the sum. Different semantics or
// providers are never summed: the error says which, and u is returned as it
// was. Where the models differ the sum names the later one.
func (u Usage) Add(v Usage) (Usage, error) {
	switch {
	case v == (Usage{}):
		return u, nil
	case u == (Usage{}):
		return v, nil
	case u.Semantics != v.Semantics:
		return u, fmt.Errorf("cannot add usage: %q and %q count tokens differently; show them apart", u.Semantics, v.Semantics)
	case u.Provider != v.Provider:
		return u, fmt.Errorf("cannot add usage: it comes from different providers, %q and %q; show them apart", u.Provider, v.Provider)
	}
	sum := u
	if v.Model != "" {
		sum.Model, sum.ModelSource = v.Model, v.ModelSource
	}
	sum.Input = addCount(u.Input, v.Input)
	sum.Output = addCount(u.Output, v.Output)
	sum.CacheRead = addCount(u.CacheRead, v.CacheRead)
	sum.CacheWrite = addCount(u.CacheWrite, v.CacheWrite)
	sum.ModelCalls = addCount(u.ModelCalls, v.ModelCalls)
	sum.ToolCalls = addCount(u.ToolCalls, v.ToolCalls)
	if u.ToolCounts != v.ToolCounts {
		sum.ToolCounts = CountsPartial
	}
	sum.CostUSD = nil
	if u.CostUSD != nil && v.CostUSD != nil {
		cost := *u.CostUSD + *v.CostUSD
		sum.CostUSD = &cost
	}
	sum.Seconds = u.Seconds + v.Seconds
	return sum, nil
}

// Tokens returns all tokens of input and output, cached ones included, each
// counted once; what is unknown counts as zero. It is what a token budget
// limits.
func (u Usage) Tokens() int64 {
	parts := []*int64{u.Input, u.Output}
	if u.Semantics != IncludesCache {
		parts = append(parts, u.CacheRead, u.CacheWrite)
	}
	var total int64
	for _, p := range parts {
		if p != nil {
			total = *addCount(&total, p)
		}
	}
	return total
}

// addCount adds two counts, or says unknown if either is. A sum that does not
// fit stays at the largest number, so that a limit still holds.
func addCount[T int | int64](a, b *T) *T {
	if a == nil || b == nil {
		return nil
	}
	sum := *a + *b
	if *a > 0 && *b > 0 && sum < 0 {
		sum = T(math.MaxInt)
	}
	return &sum
}

// Spent is what turns used of a budget. What a provider does not report counts
// as nothing, so that one turn whose usage is unknown doesn't hide what the
// others used.
type Spent struct {
	Turns   int     `json:"turns,omitempty"`
	Tokens  int64   `json:"tokens,omitempty"`
	CostUSD float64 `json:"cost_usd,omitempty"`
}

// Count adds a turn, and what it used until now.
func (s *Spent) Count(u Usage) {
	tokens := u.Tokens()
	s.Turns++
	s.Tokens = *addCount(&s.Tokens, &tokens)
	if u.CostUSD != nil {
		s.CostUSD += *u.CostUSD
	}
}

// Ends reports whether so much ends a turn in flight. A turn counts from its
// beginning, so a budget of turns never does.
func (b Budget) Ends(s Spent) bool {
	b.Turns = 0
	return b.reached(s) != ""
}

// reached names the limit that has been used up, or nothing.
func (b Budget) reached(s Spent) string {
	switch {
	case b.Turns > 0 && s.Turns >= b.Turns:
		return "turns"
	case b.Tokens > 0 && s.Tokens >= b.Tokens:
		return "tokens"
	case b.CostUSD > 0 && (s.CostUSD >= b.CostUSD || math.IsNaN(s.CostUSD)):
		return "cost"
	}
	return ""
}
