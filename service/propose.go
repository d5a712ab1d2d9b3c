package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/checkout"
	"github.com/reevehq/reeve/service/internal/proc"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/internal/supervisor"
	"github.com/reevehq/reeve/service/provider"
	"github.com/reevehq/reeve/service/provider/acp"
)

// MissionCheck says for every rule whether the proposed terms satisfy it, and
// changes nothing. A field that is wrong by itself, such as an empty one, is not
// looked at any further.
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
		Minutes: p.Minutes, Budget: mission.Budget(p.Budget), Limits: mission.Limits(p.Limits), Unasked: unasked,
		Worktree: p.Worktree, WaitForReset: p.WaitForReset,
	}.Normalize()
	if terms.Limits.MemoryMB == 0 {
		memory, err := proc.PhysicalMemory()
		if err != nil {
			s.log.Warn("the machine's memory can't be read, so a mission without a memory limit has none", "err", err)
		}
		terms.Limits.MemoryMB = mission.DefaultMemoryMB(memory)
	}
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
		tree, err := s.checkFolder(ctx, terms, add)
		if err != nil {
			return prop, checks, err
		}
		if tree != nil {
			prop.Terms.Folder, prop.Tree, prop.Notes = tree.Path, *tree, tree.Notes
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

// checkFolder returns the tree when the folder can be a checkout, or a worktree
// can be made from it.
func (s *Service) checkFolder(ctx context.Context, terms mission.Terms, add addCheck) (*checkout.Tree, error) {
	tree, err := checkout.Inspect(ctx, terms.Folder, s.o.StateDir)
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
	if terms.Worktree {
		// The names of the one that will be made come with the approval.
		plan, err := checkout.PlanWorktree(ctx, tree, s.o.StateDir, supervisor.NewID("m"))
		if errors.As(err, &r) {
			add("worktree", r.Name, false, r.What, r.Fix)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		add("worktree", "worktree", true, "A worktree of its own will be made in "+filepath.Dir(plan.Path)+", on a branch of its own.", "")
		return &tree, nil
	}
	seen, err := checkout.Look(ctx, s.db, tree.Path)
	if err == nil {
		err = s.db.View(func(tx *store.Tx) error {
			r = checkout.Conflict(tx, seen, "")
			return nil
		})
	}
	if err != nil && !errors.As(err, &r) {
		return nil, err
	}
	if r != nil {
		add("folder", r.Name, false, r.What, r.Fix)
		return nil, nil
	}
	add("folder", "nobody else works here", true, "No other mission owns this checkout.", "")
	return &tree, nil
}

// checkProvider looks for the program and completes the proposal with it.
func (s *Service) checkProvider(ctx context.Context, prop *supervisor.Proposal, add addCheck) {
	name := prop.Terms.Provider
	p := s.provider(name)
	if p == nil {
		list, err := s.providers()
		if err != nil {
			add("provider", "provider", false, fmt.Sprintf("There is no provider %q here, and the agents of your own can't be read.", name), err.Error()+".")
			return
		}
		var known []string
		for _, p := range list {
			known = append(known, p.Name())
		}
		add("provider", "provider", false, fmt.Sprintf("There is no provider %q here.", name), "Choose one of "+strings.Join(known, ", ")+".")
		return
	}
	env := s.withStored(prop.Env, p.Variables())
	found := p.Probe(ctx, environ(env))
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
	if agent, ok := p.(*acp.Provider); ok {
		if what, fix := agent.Refusal(prop.Terms.Folder); what != "" {
			add("provider", "safe in this folder", false, what, fix)
			return
		}
	}
	if !checkBudget(p, prop, add) {
		return
	}
	prop.Program = supervisor.Program{Path: found.Path, Args: found.Args, Version: found.Version, Mode: found.Mode}
	prop.Vars, prop.Fixed = p.Variables(), found.Fixed
	prop.Notes = append(prop.Notes, found.Notes...)
	if len(found.Args) > 0 && name != "acp:demo" {
		prop.Notes = append(prop.Notes, "It is run with the arguments "+strings.Join(quotedAll(found.Args), " ")+".")
	}
	if len(found.Fixed) > 0 {
		prop.Notes = append(prop.Notes, "It always gets "+strings.Join(quotedAll(found.Fixed), " ")+".")
	}
	var secrets []string
	for _, v := range p.Variables() {
		if v.Secret && env[v.Name] != "" {
			secrets = append(secrets, v.Name)
		}
	}
	if len(secrets) > 0 {
		prop.Notes = append(prop.Notes, supervisor.CouldRead(secrets))
	}
	if prop.Terms.Endpoint == "" {
		prop.Terms.Endpoint = found.Endpoint
	} else if found.Endpoint != "" && found.Endpoint != prop.Terms.Endpoint {
		prop.Notes = append(prop.Notes, "The environment names another endpoint ("+shownEndpoint(found.Endpoint)+"); the mission uses the one above.")
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

// checkBudget refuses a budget that would end nothing, as the agent never says how
// much of it was used.
func checkBudget(p provider.Provider, prop *supervisor.Proposal, add addCheck) bool {
	b, can := prop.Terms.Budget, p.Capabilities()
	refused := func(what, unit, fix string) bool {
		add("budget", "budget", false, fmt.Sprintf("%s does not say %s, so a budget in %s would end nothing.", p.Title(), what, unit), fix)
		return false
	}
	switch {
	case b.Tokens > 0 && !can.Usage:
		return refused("how many tokens it used", "tokens", "Limit the turns or the time instead.")
	case b.CostUSD > 0 && !can.UsageCost && can.Usage:
		return refused("what it cost", "dollars", "Limit the tokens or the turns instead.")
	case b.CostUSD > 0 && !can.UsageCost:
		return refused("what it cost", "dollars", "Limit the turns or the time instead.")
	}
	if agent, ok := p.(*acp.Provider); ok && agent.Own() && (b.Tokens > 0 || b.CostUSD > 0) {
		prop.Notes = append(prop.Notes, "Whether this agent says how much it used is not known. What it does not say ends nothing.")
	}
	return true
}

// withStored adds to a proposer's variables what the provider will get of the
// stored credentials. Whether they can be had is seen at the start; a probe
// only asks which there are.
func (s *Service) withStored(env map[string]string, vars []mission.Variable) map[string]string {
	env = maps.Clone(env)
	for _, v := range vars {
		if _, ok := s.credentials.Where(v.Name); ok && v.Secret && env[v.Name] == "" {
			if env == nil {
				env = map[string]string{}
			}
			env[v.Name] = "stored"
		}
	}
	return env
}

func quotedAll(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strconv.Quote(s)
	}
	return out
}

func environ(vars map[string]string) []string {
	out := make([]string, 0, len(vars))
	for k, v := range vars {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}
