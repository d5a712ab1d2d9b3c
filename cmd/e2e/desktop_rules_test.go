package e2e

import (
	"image"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/provider/demo"
)

// Where the parts of an approval's menu are, from the right and the bottom of
// the window, when exactly the request is all that is offered.
var (
	menuOffer   = image.Pt(-274, -273)
	menuConfirm = image.Pt(-133, -124)
)

// rulesEntry is the page of rules in the side bar.
var rulesEntry = image.Pt(100, 136)

// tinted tells whether an area in the tint of what allows lies at a place.
func (w window) tinted(at image.Point) bool {
	x, y := w.at(at.X, at.Y)
	for _, r := range fills(w.image(), accentTint, image.Pt(80, 24)) {
		if image.Pt(x, y).In(r) {
			return true
		}
	}
	return false
}

// has tells whether a colour is anywhere in an area.
func (w window) has(c rgb, area image.Rectangle) bool {
	img := w.image()
	area = area.Intersect(img.Rect)
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			if c.is(img, x, y) {
				return true
			}
		}
	}
	return false
}

// allowedFor makes a rule of what the window asks, until the mission ends: a
// click opens the menu, another chooses and a third one makes it.
func (s *screen) allowedFor(w window) {
	s.t.Helper()
	at := s.armed(w)
	w.click(at.X-54-8-90, at.Y)
	s.until("the menu with a choice made", func() bool {
		w.click(menuOffer.X, menuOffer.Y)
		return w.tinted(menuOffer)
	})
	s.until("the menu's button", func() bool { return w.tinted(menuConfirm) })
	w.shot("menu")
	w.click(menuConfirm.X, menuConfirm.Y)
}

// TestDesktopRules: a command is allowed for the mission by clicks; the same one
// runs without asking then; the rule is on its page with its use; revoked there,
// the command is asked about again.
func TestDesktopRules(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	v := m.watch()
	s := newScreen(m)
	s.env = append(s.env, "HOME="+s.dir) // so that the checkout is ~/code/parser
	folder := filepath.Join(s.dir, "code", "parser")
	if err := demo.Sample(folder); err != nil {
		t.Fatal(err)
	}
	rules := func() []wire.Rule {
		return do[wire.RuleListResult](v, wire.MethodRuleList, wire.RuleListParams{}).Rules
	}
	do[wire.RuleResult](v, wire.MethodRuleAdd, wire.RuleAddParams{Effect: "deny", Folder: folder, About: "git push *"})
	do[wire.RuleResult](v, wire.MethodRuleAdd, wire.RuleAddParams{Effect: "allow", Folder: folder, About: "go vet ./..."})
	h := s.trayHost()
	p := s.reeve()
	h.registered()
	main := s.window("Reeve")
	mi := s.start(v, m.demoTerms(folder, "Port the parser to Go\n\ndemo:command sh check.sh\ndemo:command sh check.sh\ndemo:command touch made.txt\ndemo:command sh check.sh"))

	ask, _ := v.asked(mi.ID, "check.sh")
	const title = "Allow this command?"
	s.allowedFor(s.window(title))
	v.wait("the answer", func() bool { return v.approvals[ask.ID].State == "allowed" })
	s.answered(v, ask.ID, p)
	v.mu.Lock()
	made := v.approvals[ask.ID].Answer
	v.mu.Unlock()
	if made.For != "mission" || made.Pattern != "" || made.Made == "" {
		t.Fatalf("the answer is %+v", made)
	}

	// The next one is not asked about: the one after it is.
	touch, _ := v.asked(mi.ID, "touch made.txt")
	var used *wire.Rule
	for _, r := range rules() {
		if r.ID == made.Made {
			used = &r
		}
	}
	if used == nil || used.Uses != 1 || used.Mission != mi.ID || used.Effect != "allow" || used.Command != "sh check.sh" {
		t.Fatalf("the rule is %+v", used)
	}
	s.window(title).close()
	s.gone(title)

	main.raise()
	main.click(rulesEntry.X, rulesEntry.Y)
	var question image.Rectangle
	s.until("the question of a rule", func() bool {
		// Below the denied one and its heading, the newest allowed rule.
		main.click(-76, 221)
		found := fills(main.image(), wrongTint, image.Pt(400, 24))
		if len(found) == 1 {
			question = found[0]
		}
		return len(found) == 1
	})
	main.shot("question")
	main.click(-214, (question.Min.Y+question.Max.Y)/2) // keep it; the ring of the focus around it parts the area
	s.until("the rule kept", func() bool { return len(fills(main.image(), wrongTint, image.Pt(400, 24))) == 0 })
	if n := len(rules()); n != 3 {
		t.Fatalf("%d rules after keeping it", n)
	}
	main.click(-62, -57) // verify the audit log
	s.until("a whole audit log", func() bool { return main.has(doneInk, image.Rect(250, 695, 275, 715)) })
	s.readme("rules", main)
	s.until("the question again", func() bool {
		main.click(-76, 221)
		return len(fills(main.image(), wrongTint, image.Pt(400, 24))) == 1
	})
	main.click(-104, (question.Min.Y+question.Max.Y)/2)
	s.until("the end of the rule", func() bool { return len(rules()) == 2 })
	main.shot("revoked")

	// What it allowed is asked about again.
	h.choose("▲ Port")
	s.allowed(v, title, touch.ID)
	var again wire.Approval
	v.wait("the command asked about again", func() bool {
		for _, a := range v.approvals {
			if a.State == "pending" && a.Mission == mi.ID && a.ID != ask.ID && strings.Contains(string(a.Subject), "check.sh") {
				again = a
				return true
			}
		}
		return false
	})
	s.allowed(v, title, again.ID)
	s.answered(v, again.ID, p)
	v.phase(mi.ID, "completed")
}
