package model

import (
	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// Offer is a rule that an answer may make, beside its being for this once.
type Offer struct {
	Pattern  string // to be repeated in the answer; empty: exactly the request
	Shown    string // the pattern with everything visible
	Sentence string
}

// Reach says in words how far an answer reaches.
func Reach(reach string) string {
	switch reach {
	case approval.ForMission:
		return say.T("until the mission ends")
	case approval.ForProject:
		return say.T("always in this project")
	}
	return say.T("this once")
}

// offered are the rules that an answer to a may make. Starts, recoveries and
// questions are answered once, whatever came with them.
func offered(a wire.Approval) []Offer {
	switch approval.Kind(a.Kind) {
	case approval.ToolCall, approval.FileChange, approval.NetworkOrEndpoint:
	default:
		return nil
	}
	if a.State != string(approval.Pending) {
		return nil
	}
	var out []Offer
	for _, o := range a.Offers {
		out = append(out, Offer{Pattern: o.Pattern, Shown: exactCommand(o.Pattern), Sentence: Told(oneLine(o.Sentence))})
	}
	return out
}

// RuleLine is a rule in one line: what it does, with what, how far.
func RuleLine(r wire.Rule) string {
	about := exact(r.About)
	if r.Pattern != "" {
		about += " (" + oneLine(r.Sentence) + ")"
	}
	return Clean(r.Effect) + " " + about
}
