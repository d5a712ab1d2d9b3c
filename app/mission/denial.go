package mission

import (
	"fmt"
	"strings"
)

// Denial is a tool call that the person denied, and why, if they said so.
type Denial struct{ Call, Reason string }

// DenialPrompt tells an agent inside its turn what its program can't tell it:
// why a call was denied, and which others were only refused along with it.
func DenialPrompt(denied []Denial, along []string) string {
	var b strings.Builder
	section := func(title, text string) { fmt.Fprintf(&b, "## %s\n%s\n\n", title, text) }
	items := make([]string, 0, len(denied))
	for _, d := range denied {
		item := trim(d.Call)
		if d.Reason != "" {
			item += "\nThe person says: " + trim(d.Reason)
		}
		items = append(items, item)
	}
	section("Denied by the person", list(items)+"\nWhat was denied stays denied. Do not reach the same end in another way.")
	if len(along) > 0 {
		section("Not denied, only refused along with it", list(along)+"\nThe person did not see these. Ask for them again if you still need them.")
	}
	section("Now", "Go on with this turn.")
	section("Last", workNextRule)
	return strings.TrimRight(b.String(), "\n") + "\n"
}
