//go:build unix

package service

import (
	"context"
	"strings"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/provider"
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
