package model

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
)

func TestRuleRows(t *testing.T) {
	now := time.Date(2026, 3, 4, 15, 5, 0, 0, time.UTC)
	used := now.Add(-time.Minute)
	title := func(id string) (wire.Mission, bool) { return wire.Mission{Title: "Port\nparser"}, id == "m-1" }
	for _, row := range []struct {
		rule wire.Rule
		want RuleRow
	}{
		{wire.Rule{Effect: "allow", For: "mission", Mission: "m-1", Class: "execute", Command: "npm test", About: "npm test", Cwd: ".", Sentence: "exactly this command", By: "reeve (pid 7)"},
			RuleRow{Words: "exactly this command; in the root of the checkout", Reach: "until “Port parser” ends", Made: "made 14:00 by reeve (pid 7)", Used: "never used"}},
		{wire.Rule{Effect: "allow", For: "mission", Mission: "m-2", Class: "execute", Pattern: "npm test *", About: "npm test *", Cwd: "web", Sentence: "“npm test” with any further plain words", By: "x\u202ey", Uses: 1, LastUsedAt: &used},
			RuleRow{Words: "“npm test” with any further plain words; in the folder web", Reach: "until mission m-2 ends", Made: "made 14:00 by x‹U+202E›y", Used: "1 use, last 15:04"}},
		// A rule that denies is wide, and its words say so.
		{wire.Rule{Effect: "deny", For: "project", Project: "/home/me/code/shop", Class: "execute", Pattern: "git push *", About: "git push *", Cwd: ".", Sentence: "no options", By: "reeve", Uses: 3, LastUsedAt: &used},
			RuleRow{Deny: true, Words: "“git push” with anything after it, in any folder, also inside a longer command", Reach: "always in ~/code/shop", Project: "/home/me/code/shop", Made: "made 14:00 by reeve", Used: "3 uses, last 15:04"}},
		{wire.Rule{Effect: "deny", For: "project", Project: "/p", Class: "execute", Command: "make", About: "make", Sentence: "exactly this command", By: "reeve"},
			RuleRow{Deny: true, Words: "this command, in any folder, also inside a longer one", Reach: "always in /p", Project: "/p", Made: "made 14:00 by reeve", Used: "never used"}},
		{wire.Rule{Effect: "allow", For: "project", Project: "/p", Class: "edit", Pattern: "docs/", About: "docs/", Sentence: "any change to any file in the folder docs/", By: "reeve"},
			RuleRow{Words: "any change to any file in the folder docs/", Reach: "always in /p", Project: "/p", Made: "made 14:00 by reeve", Used: "never used"}},
	} {
		row.rule.ID, row.rule.CreatedAt = "r-1", now.Add(-65*time.Minute)
		got := RuleRows([]wire.Rule{row.rule}, "", title, "/home/me", now)[0]
		if got.Code.Plain() != row.rule.About || got.ID != "r-1" {
			t.Errorf("%s: code %q", row.rule.About, got.Code.Plain())
		}
		got.Code, got.ID = approval.Shown{}, ""
		row.want.Code = got.Code
		if !equalRows(got, row.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", row.rule.About, got, row.want)
		}
	}
}

func equalRows(a, b RuleRow) bool {
	return a.Deny == b.Deny && a.Words == b.Words && a.Reach == b.Reach && a.Project == b.Project && a.Made == b.Made && a.Used == b.Used
}

// What is unknown of a rule's effect is not called allowed.
func TestUnknownEffectIsNotAllowed(t *testing.T) {
	rows := RuleRows([]wire.Rule{{Effect: "maybe"}}, "", func(string) (wire.Mission, bool) { return wire.Mission{}, false }, "", time.Now())
	if !rows[0].Deny {
		t.Error("a rule of an unknown effect counts as one that allows")
	}
}

func TestRuleFilter(t *testing.T) {
	none := func(string) (wire.Mission, bool) { return wire.Mission{}, false }
	at := time.Date(2026, 3, 4, 15, 0, 0, 0, time.UTC)
	list := []wire.Rule{{ID: "r-1", Project: "/z/app", CreatedAt: at}, {ID: "r-2", Project: "/a/web", CreatedAt: at.Add(time.Hour)}, {ID: "r-3", CreatedAt: at}, {ID: "r-4", Project: "/z/app", CreatedAt: at.Add(time.Minute)}}
	if got := RuleProjects(list); !slices.Equal(got, []string{"/z/app", "/a/web"}) {
		t.Errorf("projects %q", got)
	}
	for project, want := range map[string][]string{"": {"r-2", "r-4", "r-1", "r-3"}, "/z/app": {"r-4", "r-1"}, "/none": nil} {
		var got []string
		for _, r := range RuleRows(list, project, none, "", at) {
			got = append(got, r.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", project, got, want)
		}
	}
}

func TestPromise(t *testing.T) {
	v := Approval{Sentence: Detail{Code: "~/code/shop"}, Parts: []Part{{Kind: PartCommand}}}
	exactly, pattern := Offer{Sentence: "exactly this command"}, Offer{Pattern: "npm test *", Sentence: "“npm test” with any further plain words"}
	for _, row := range []struct {
		allow bool
		reach string
		offer Offer
		want  []string
	}{
		{true, approval.ForMission, exactly, []string{"Until the mission ends", "allowed without asking", "exactly this command; in ~/code/shop."}},
		{true, approval.ForProject, pattern, []string{"every mission of this project", "allowed", "any further plain words; in ~/code/shop."}},
		{false, approval.ForMission, exactly, []string{"Until the mission ends", "denied", "in any folder, also inside a longer one."}},
		{false, approval.ForProject, pattern, []string{"every mission", "denied", "“npm test” with anything after it, in any folder"}},
	} {
		got := v.Promise(row.allow, row.reach, row.offer)
		for _, want := range row.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q lacks %q", got, want)
			}
		}
	}
	v.Parts = []Part{{Kind: PartDiff}}
	if got := v.Promise(true, approval.ForMission, Offer{Pattern: "docs/", Sentence: "any change in docs/"}); !strings.HasSuffix(got, ": any change in docs/.") {
		t.Errorf("of a change: %q", got)
	}
}
