package service

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
	"github.com/reevehq/reeve/service/provider"
)

// MissionCheck tells of every rule how proposed terms stand, and changes
// nothing. Fields that are still empty are not reproached twice.
func (s *Service) MissionCheck(ctx context.Context, p wire.MissionStartParams) (wire.MissionCheckResult, error) {
	_, checks, err := s.propose(ctx, p)
	return wire.MissionCheckResult{Checks: checks}, err
}

// propose applies every rule to what a client wants to start. The proposal is
// complete when all checks are fine.
func (s *Service) propose(ctx context.Context, p wire.MissionStartParams) (supervisor.Proposal, []wire.FieldCheck, error) {
	var unasked []mission.Unasked
	if p.Unasked != nil {
		unasked = []mission.Unasked{}
		for _, u := range p.Unasked {
			unasked = append(unasked, mission.Unasked(u))
		}
	}
	terms := mission.Terms{
		Provider: p.Provider, Model: p.Model, Endpoint: p.Endpoint, Folder: p.Folder, Scope: p.Scope,
		Minutes: p.Minutes, Budget: mission.Budget(p.Budget), Unasked: unasked,
	}.Normalize()
	prop := supervisor.Proposal{Terms: terms, Env: p.Env}
	var checks []wire.FieldCheck
	add := func(field, name string, ok bool, message, fix string) {
		checks = append(checks, wire.FieldCheck{Field: field, Name: name, OK: ok, Message: message, Fix: fix})
	}
	bad := map[string]bool{}
	for _, problem := range terms.Check() {
		bad[problem.Field] = true
		add(problem.Field, problem.Field, false, problem.Message, problem.Fix)
	}

	if !bad["folder"] {
		tree, err := s.checkFolder(ctx, terms.Folder, add)
		if err != nil {
			return prop, checks, err
		}
		if tree != nil {
			prop.Terms.Folder, prop.Notes = tree.Path, tree.Notes
			if prop.GitExec, err = checkout.Executables(ctx, tree.Path); err != nil {
				return prop, checks, err
			}
		}
	}
	if !bad["provider"] {
		s.checkProvider(ctx, &prop, add)
	}
	if !bad["scope"] {
		add("scope", "scope", true, "The scope is complete.", "")
	}
	if !bad["minutes"] {
		add("minutes", "minutes", true, fmt.Sprintf("%d minutes.", terms.Minutes), "")
	}
	return prop, checks, nil
}

type addCheck func(field, name string, ok bool, message, fix string)

// checkFolder returns the tree when the folder can be a checkout.
func (s *Service) checkFolder(ctx context.Context, folder string, add addCheck) (*checkout.Tree, error) {
	tree, err := checkout.Inspect(ctx, folder, s.o.StateDir)
	var r *checkout.Refusal
	if errors.As(err, &r) {
		add("folder", r.Name, false, r.What, r.Fix)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	where := filepath.Base(tree.Path)
	if tree.Branch != "" {
		where = "on " + tree.Branch
	}
	if len(tree.Head) >= 7 {
		where += " at " + tree.Head[:7]
	}
	add("folder", "git checkout", true, "A git checkout, "+where+".", strings.Join(tree.Notes, " "))
	if err := s.db.View(func(tx *store.Tx) error {
		r = checkout.Conflict(tx, tree.Path, "")
		return nil
	}); err != nil {
		return nil, err
	}
	if r != nil {
		add("folder", r.Name, false, r.What, r.Fix)
		return nil, nil
	}
	add("folder", "nobody else works here", true, "No other mission owns this checkout.", "")
	return &tree, nil
}

func (s *Service) provider(name string) provider.Provider {
	i := slices.IndexFunc(s.o.Providers, func(p provider.Provider) bool { return p.Name() == name })
	if i < 0 {
		return nil
	}
	return s.o.Providers[i]
}

// checkProvider looks for the program and completes the proposal with it.
func (s *Service) checkProvider(ctx context.Context, prop *supervisor.Proposal, add addCheck) {
	name := prop.Terms.Provider
	p := s.provider(name)
	if p == nil {
		var known []string
		for _, p := range s.o.Providers {
			known = append(known, p.Name())
		}
		add("provider", "provider", false, fmt.Sprintf("There is no provider %q here.", name), "Choose one of "+strings.Join(known, ", ")+".")
		return
	}
	found := p.Probe(ctx, environ(prop.Env))
	switch {
	case !found.Found:
		add("provider", "provider", false, found.Problem, found.Fix)
		return
	case found.SignedIn != nil && !*found.SignedIn:
		add("provider", "signed in", false, found.Problem, found.Fix)
		return
	case found.Problem != "":
		add("provider", "provider", false, found.Problem, found.Fix)
		return
	}
	prop.Program = supervisor.Program{Path: found.Path, Args: found.Args, Version: found.Version}
	prop.Vars = p.Variables()
	if prop.Terms.Endpoint == "" {
		prop.Terms.Endpoint = found.Endpoint
	} else if found.Endpoint != "" && found.Endpoint != prop.Terms.Endpoint {
		prop.Notes = append(prop.Notes, "The environment names another endpoint ("+found.Endpoint+"); the mission uses the one above.")
	}
	if bad := mission.CheckEndpoint(prop.Terms.Endpoint); bad != nil {
		add("endpoint", "endpoint", false, bad.Message, bad.Fix)
		return
	}
	message := fmt.Sprintf("%s %s was found", p.Title(), found.Version)
	if found.SignedIn != nil {
		message += " and is signed in"
	}
	add("provider", "provider", true, message+".", "")
}

// ProviderList tells what was found on this machine.
func (s *Service) ProviderList(ctx context.Context, p wire.ProviderListParams) (wire.ProviderListResult, error) {
	var out wire.ProviderListResult
	for _, pr := range s.o.Providers {
		found := pr.Probe(ctx, environ(p.Env))
		out.Providers = append(out.Providers, wire.Provider{
			Name: pr.Name(), Title: pr.Title(), Found: found.Found, Path: found.Path, Version: found.Version,
			SignedIn: found.SignedIn, Problem: found.Problem, Fix: found.Fix,
		})
	}
	return out, nil
}

func environ(vars map[string]string) []string {
	out := make([]string, 0, len(vars))
	for k, v := range vars {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}
