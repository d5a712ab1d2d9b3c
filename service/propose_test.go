//go:build unix

package service

import (
	"context"
	"strings"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/acp"
)

// elsewhere is an agent that the environment sends to another endpoint.
type elsewhere struct {
	provider.Provider
	endpoint string
}

func (e elsewhere) Probe(ctx context.Context, env []string) provider.Probe {
	found := e.Provider.Probe(ctx, env)
	found.Endpoint = e.endpoint
	return found
}

// An approval names the endpoint of the environment, and not who one is there.
func TestTheOtherEndpointIsToldWithoutSecrets(t *testing.T) {
	h := newHouse(t)
	h.s.o.Providers = []provider.Provider{elsewhere{h.s.o.Providers[0], "https://me:canary@example.org/v1?key=canary"}}
	prop, checks, err := h.s.propose(t.Context(), wire.MissionStartParams{Provider: "acp:demo", Endpoint: "https://api.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	told := strings.Join(prop.Notes, " ")
	if !strings.Contains(told, "another endpoint (https://example.org/v1)") || strings.Contains(told, "canary") {
		t.Errorf("told %q, checks %+v", told, checks)
	}
}

// reports is an agent with these capabilities.
type reports struct {
	provider.Provider
	can provider.Capabilities
}

func (r reports) Capabilities() provider.Capabilities { return r.can }

// A budget that an agent never reports is refused, as it would end nothing.
func TestBudgetThatNothingKeeps(t *testing.T) {
	h := newHouse(t)
	demo := h.s.o.Providers[0]
	own := acp.New(acp.Agent{Name: "own", Title: "Own", Path: demo.Probe(t.Context(), nil).Path})
	for _, c := range []struct {
		name    string
		p       provider.Provider
		budget  wire.Budget
		refused string
		note    bool
	}{
		{"turns", reports{demo, provider.Capabilities{}}, wire.Budget{Turns: 3}, "", false},
		{"tokens", reports{demo, provider.Capabilities{Usage: true}}, wire.Budget{Tokens: 3}, "", false},
		{"no tokens", reports{demo, provider.Capabilities{}}, wire.Budget{Tokens: 3}, "does not say how many tokens it used", false},
		{"cost", reports{demo, provider.Capabilities{Usage: true, UsageCost: true}}, wire.Budget{CostUSD: 1}, "", false},
		{"no cost", reports{demo, provider.Capabilities{Usage: true}}, wire.Budget{CostUSD: 1}, "does not say what it cost", false},
		{"own", own, wire.Budget{CostUSD: 1}, "", true},
		{"own, no budget", own, wire.Budget{}, "", false},
	} {
		h.s.o.Providers = []provider.Provider{c.p}
		prop, checks, err := h.s.propose(t.Context(), wire.MissionStartParams{Provider: c.p.Name(), Budget: c.budget})
		if err != nil {
			t.Fatal(err)
		}
		refused := ""
		for _, k := range checks {
			if k.Field == "budget" && !k.OK {
				refused = k.Message
			}
		}
		note := strings.Contains(strings.Join(prop.Notes, " "), "how much it used is not known")
		if (refused == "") != (c.refused == "") || !strings.Contains(refused, c.refused) || note != c.note {
			t.Errorf("%s: refused %q, notes %q", c.name, refused, prop.Notes)
		}
	}
}
