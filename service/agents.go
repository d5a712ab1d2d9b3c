package service

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/agents"
	"github.com/reevehq/reeve/service/provider"
)

// providers lists the built-in agents and the person's own, which are read anew
// each time. A file of them that can't be used leaves the others as they are.
func (s *Service) providers() ([]provider.Provider, error) {
	list := slices.Clone(s.o.Providers)
	own, err := s.agents.Agents()
	for _, e := range own {
		list = append(list, e.Provider())
	}
	return list, err
}

// provider finds one by its name, nil if there is none.
func (s *Service) provider(name string) provider.Provider {
	list, err := s.providers()
	if err != nil {
		s.log.Warn("the file of agents can't be used", "err", err)
	}
	if i := slices.IndexFunc(list, func(p provider.Provider) bool { return p.Name() == name }); i >= 0 {
		return list[i]
	}
	return nil
}

// ProviderList tells what was found on this machine.
func (s *Service) ProviderList(ctx context.Context, p wire.ProviderListParams) (wire.ProviderListResult, error) {
	var out wire.ProviderListResult
	for _, pr := range s.o.Providers {
		out.Providers = append(out.Providers, s.found(ctx, pr, p.Env))
	}
	own, err := s.agents.Agents()
	if err != nil {
		out.Problem = err.Error()
	}
	for _, e := range own {
		out.Providers = append(out.Providers, s.foundOwn(ctx, e, p.Env))
	}
	return out, nil
}

// foundOwn tells how an agent of the person's own was written down, too.
func (s *Service) foundOwn(ctx context.Context, e agents.Entry, env map[string]string) wire.Provider {
	v := s.found(ctx, e.Provider(), env)
	v.Entry = &wire.ProviderEntry{Name: e.Name, Title: e.Title, Command: e.Command, Args: e.Args, Fixed: e.Env, Pass: e.Pass, Mode: e.Mode}
	return v
}

func (s *Service) found(ctx context.Context, p provider.Provider, env map[string]string) wire.Provider {
	found := p.Probe(ctx, environ(env))
	builtIn := slices.ContainsFunc(s.o.Providers, func(b provider.Provider) bool { return b.Name() == p.Name() })
	return wire.Provider{
		Name: p.Name(), Title: p.Title(), Own: !builtIn, Found: found.Found, Path: found.Path, Version: found.Version,
		SignedIn: found.SignedIn, Endpoint: shownEndpoint(found.Endpoint), Problem: found.Problem, Fix: found.Fix,
	}
}

// shownEndpoint is where an endpoint leads, without what a person may have put
// into it to be let in there. A mission would refuse one with that.
func shownEndpoint(endpoint string) string {
	if endpoint == "" {
		return ""
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return "not a URL"
	}
	return strings.TrimSuffix((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), "/")
}

// ProviderAdd adds an agent of the person's own.
func (s *Service) ProviderAdd(ctx context.Context, a server.Actor, p wire.ProviderAddParams) (wire.ProviderResult, error) {
	e := agents.Entry{Name: p.Name, Title: p.Title, Command: p.Command, Args: p.Args, Env: p.Fixed, Pass: p.Pass, Mode: p.Mode}
	if bad := e.Check(); bad != nil {
		return wire.ProviderResult{}, wire.Errorf(wire.CodeInvalidParams, "%s %s", bad.Message, bad.Fix).With(map[string]string{"field": bad.Field})
	}
	put, what := s.agents.Add, "added"
	if p.Replace {
		put, what = s.agents.Replace, "changed"
	}
	err := put(e)
	switch {
	case errors.Is(err, agents.ErrTaken):
		return wire.ProviderResult{}, wire.Errorf(wire.CodeConflict, "There is an agent acp:%s already; change it instead, or remove it first, with reeve providers remove %s.", p.Name, p.Name).
			With(map[string]string{"field": "name"})
	case errors.Is(err, agents.ErrNone):
		return wire.ProviderResult{}, noAgent(p.Name)
	case err != nil:
		return wire.ProviderResult{}, wire.Errorf(wire.CodeUnavailable, "The agent was not %s: %v.", what, err)
	}
	return s.agentChanged(ctx, a, what, e, p.Env)
}

func noAgent(name string) error {
	return wire.Errorf(wire.CodeNotFound, "There is no agent of your own with the name %s; run reeve providers to see them.", name)
}

// ProviderRemove removes one. Missions that run with it go on: how it is run
// was fixed when they were approved.
func (s *Service) ProviderRemove(ctx context.Context, a server.Actor, p wire.ProviderRemoveParams) (wire.ProviderResult, error) {
	e, err := s.agents.Remove(p.Name)
	if errors.Is(err, agents.ErrNone) {
		return wire.ProviderResult{}, noAgent(p.Name)
	}
	if err != nil {
		return wire.ProviderResult{}, wire.Errorf(wire.CodeUnavailable, "The agent was not removed: %v.", err)
	}
	return s.agentChanged(ctx, a, "removed", e, nil)
}

func (s *Service) agentChanged(ctx context.Context, a server.Actor, what string, e agents.Entry, env map[string]string) (wire.ProviderResult, error) {
	if err := s.audit(ctx, fmt.Sprintf("the agent acp:%s (%s) was %s by %s (pid %d)", e.Name, e.Command, what, a.Program, a.PID)); err != nil {
		return wire.ProviderResult{}, err
	}
	return wire.ProviderResult{Provider: s.foundOwn(ctx, e, env)}, nil
}
