package model

import (
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ui/say"
)

// shout is a language in which every text that is known ends with a mark.
type shout struct{}

func (shout) Text(key string) string          { return key + "!" }
func (shout) Plural(key string, _ int) string { return key + "!" }

// What the rules say is known here, so that it can be said in every language. A
// sentence that they say otherwise would stay English without anybody noticing.
func TestTheRulesAreTold(t *testing.T) {
	say.In(shout{})
	defer say.In(nil)
	var said []string
	for _, r := range []approval.Rule{
		{Command: "ls"}, {Files: []string{"a"}}, {Tool: "x"},
		{Class: "execute", Pattern: "go test *"}, {Class: "edit", Pattern: "docs/"}, {Class: "edit", Pattern: "a.go"}, {Server: "github", Tool: "create_issue", Pattern: "github create_issue *"},
	} {
		said = append(said, r.Sentence())
	}
	for _, command := range []string{"PATH=. ls", "$X a", "eval \"$X\"", "if", "bash -c \"$X\"", "xargs $X", strings.Repeat("(", 4000), strings.Repeat("a", 1<<20),
		"bash -c 'bash -c \"bash -c \\\"bash -c \\\\\\\"bash -c ls\\\\\\\"\\\"\"'"} {
		if why := approval.Programs(command).Unclear; why != "" {
			said = append(said, why)
		}
	}
	named := map[string]bool{"no-break space": true, "zero width space": true, "right-to-left override": true} // Unicode's own names
	for _, text := range []string{"a\u00a0b", "a\u200bb", "\u202eb", "a\x01b", "a\ufe0f", "a\U000e0041", "a\xff", "p\u0430ypal", "a  ", "a\t\t", "a \t ", "\u2039", "a\u037eb"} {
		for _, h := range approval.Visible(text).Hidden {
			if !named[h.Name] {
				said = append(said, h.Name)
			}
		}
	}
	said = append(said, "The guard of this mission ended unexpectedly. Its processes are gone; the last turn may have done work that it could not report. Look at the checkout, then recover or stop the mission.")
	if len(said) < 20 {
		t.Fatalf("only %d sentences: %q", len(said), said)
	}
	for _, s := range said {
		if got := Told(s); !strings.HasSuffix(got, "!") {
			t.Errorf("%q is not known", s)
		}
	}
	if got := Told("It is not clear which program %s would run. would run."); got != "It is not clear which program %s would run. would run.!" {
		t.Errorf("%q", got)
	}
	if got := Told("anything else"); got != "anything else" {
		t.Errorf("%q", got)
	}
}
