package model

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// Fields of an agent of one's own, by the names that the service gives them.
const (
	AgentName    = "name"
	AgentTitle   = "title"
	AgentCommand = "command"
	AgentArgs    = "args"
	AgentEnv     = "env"
	AgentPass    = "pass"
	AgentMode    = "mode"
)

// AgentFields are the fields, in the order in which a person fills them in.
func AgentFields() []string {
	return []string{AgentName, AgentTitle, AgentCommand, AgentMode, AgentArgs, AgentEnv, AgentPass}
}

// AgentText is an agent as it stands in the fields of a form: an argument or a
// variable to a line. An argument that would not be seen there stands in quotes.
func AgentText(e wire.ProviderEntry) map[string]string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(e.Fixed)) {
		env = append(env, name+"="+e.Fixed[name])
	}
	var args []string
	for _, a := range e.Args {
		if strings.TrimSpace(a) == "" || strings.HasPrefix(a, `"`) {
			a = strconv.Quote(a)
		}
		args = append(args, a)
	}
	return map[string]string{
		AgentName: e.Name, AgentTitle: e.Title, AgentCommand: e.Command, AgentMode: e.Mode,
		AgentArgs: strings.Join(args, "\n"), AgentEnv: strings.Join(env, "\n"), AgentPass: strings.Join(e.Pass, " "),
	}
}

// AgentEntry reads what stands in the fields. What is wrong with them without
// asking the service is told by field; everything else the service says.
func AgentEntry(text map[string]string) (e wire.ProviderEntry, wrong map[string]string) {
	wrong = map[string]string{}
	one := func(field string) string { return strings.TrimSpace(text[field]) }
	e = wire.ProviderEntry{Name: strings.TrimPrefix(one(AgentName), "acp:"), Title: one(AgentTitle), Command: one(AgentCommand), Mode: one(AgentMode),
		Args: lines(text[AgentArgs]), Pass: strings.FieldsFunc(text[AgentPass], func(r rune) bool { return strings.ContainsRune(" \t\n,", r) })}
	for i, a := range e.Args {
		if u, err := strconv.Unquote(a); err == nil && a[0] == '"' {
			e.Args[i] = u
		}
	}
	switch bad := mission.CheckProvider("acp:" + e.Name); {
	case e.Name == "":
		wrong[AgentName] = say.T("Give it a name. Missions call it acp: and that name.")
	case bad != nil:
		wrong[AgentName] = bad.Message + " " + bad.Fix
	}
	if e.Command == "" {
		wrong[AgentCommand] = say.T("Write the name of a program in your PATH, or its whole path.")
	}
	for _, line := range lines(text[AgentEnv]) {
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		_, twice := e.Fixed[name]
		switch {
		case !ok || name == "":
			wrong[AgentEnv] = say.T("“%s” is no NAME=VALUE. Write one variable to a line.", oneLine(line))
		case twice:
			wrong[AgentEnv] = say.T("%s stands there twice.", oneLine(name))
		}
		if e.Fixed == nil {
			e.Fixed = map[string]string{}
		}
		e.Fixed[name] = value
	}
	return e, wrong
}

// lines are the lines that have something in them. Spaces at the ends of a line
// are its own, as they may be meant.
func lines(text string) []string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSuffix(line, "\r"); strings.TrimSpace(line) != "" {
			out = append(out, line)
		}
	}
	return out
}
