package model

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// RuleRow is a standing rule as the page of rules lists it.
type RuleRow struct {
	ID      string
	Deny    bool
	Words   string         // what it stands for, in words
	Code    approval.Shown // the command, pattern, files or tool, whole
	Pattern string         // as the service has it; "" where it stands for exactly one thing
	Reach   string         // "until “Port parser to Go” ends", "always in ~/code/parser"
	Project string         // the folder of its project, "" where none is known
	Made    string         // "made 15:03 by reeve-desktop (pid 812)"
	Used    string         // "never used", "3 uses, last 15:04"
}

// RuleRows prepares rules for a person, newest first, only those of project
// when it is not empty. mission finds a mission by its id.
func RuleRows(list []wire.Rule, project string, mission func(id string) (wire.Mission, bool), home string, now time.Time) []RuleRow {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b wire.Rule) int { return b.CreatedAt.Compare(a.CreatedAt) })
	var out []RuleRow
	for _, r := range list {
		if project != "" && r.Project != project {
			continue
		}
		row := RuleRow{ID: r.ID, Deny: r.Effect != string(approval.Allow), Code: approval.Visible(r.About), Pattern: r.Pattern, Project: r.Project,
			Reach: say.T("always in %s", Path(r.Project, home)), Made: say.T("made %s by %s", Clock(r.CreatedAt, now), oneLine(r.By)), Used: say.T("never used")}
		if r.Class == "execute" {
			row.Code = approval.VisibleCommand(r.About)
		}
		row.Words = covers(row.Deny, r.Class == "execute", r.Pattern, Told(oneLine(r.Sentence)), placeOf(r.Cwd))
		if r.For == approval.ForMission {
			row.Reach = say.T("until mission %s ends", Clean(r.Mission))
			if m, ok := mission(r.Mission); ok {
				row.Reach = say.T("until “%s” ends", oneLine(m.Title))
			}
		}
		if r.LastUsedAt != nil {
			row.Used = say.N(r.Uses, "%d use, last %s", "%d uses, last %s", Clock(*r.LastUsedAt, now))
		}
		out = append(out, row)
	}
	return out
}

// RuleProjects are the projects that there are rules of, by name.
func RuleProjects(list []wire.Rule) []string {
	var out []string
	for _, r := range list {
		if r.Project != "" && !slices.Contains(out, r.Project) {
			out = append(out, r.Project)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(Folder(a), Folder(b)), cmp.Compare(a, b)) })
	return out
}

// Promise says in words what an answer would settle from now on. It is shown
// before the rule is made.
func (v Approval) Promise(allow bool, reach string, o Offer) string {
	command := slices.ContainsFunc(v.Parts, func(p Part) bool { return p.Kind == PartCommand })
	where := ""
	if command {
		where = say.T("in %s", v.Sentence.Code)
	}
	what := covers(!allow, command, o.Pattern, o.Sentence, where)
	switch short := reach == approval.ForMission; {
	case short && allow:
		return say.T("Until the mission ends, this is allowed without asking you: %s.", what)
	case short:
		return say.T("Until the mission ends, this is denied without asking you: %s.", what)
	case allow:
		return say.T("From now on, in every mission of this project, this is allowed without asking you: %s.", what)
	}
	return say.T("From now on, in every mission of this project, this is denied without asking you: %s.", what)
}

// covers says in words what a rule stands for. sentence is what the service
// says of it as one that allows; where a command may run is where. A rule that
// denies a command is wider.
func covers(deny, command bool, pattern, sentence, where string) string {
	switch {
	case command && deny && pattern != "":
		return say.T("“%s” with anything after it, in any folder, also inside a longer command", exactCommand(strings.TrimSuffix(pattern, " *")))
	case command && deny:
		return say.T("this command, in any folder, also inside a longer one")
	case command && where != "":
		return sentence + "; " + where
	}
	return sentence
}

// placeOf says where the command of a rule may run. The folder of a rule is
// relative to the checkout.
func placeOf(cwd string) string {
	switch cwd {
	case "":
		return ""
	case ".":
		return say.T("in the root of the checkout")
	}
	return say.T("in the folder %s", exact(cwd))
}
