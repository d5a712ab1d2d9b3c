package supervisor

import (
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/mission"
)

// A refusal tells how a mission ended in words, not in the names of the protocol.
func TestEndInWords(t *testing.T) {
	for reason, want := range map[mission.EndReason]string{
		mission.EndScopeDone: "the whole scope is done", mission.EndPerson: "stopped by you", mission.EndDeadline: "stopped at its deadline",
		mission.EndBudget: "its budget was used", mission.EndAuthority: "lost its authority", mission.EndDenied: "its start was denied",
		mission.EndReason(mission.AuthenticationRequired): "it could not start", "": "stopped",
	} {
		r := Record{EndReason: reason, Phase: mission.Stopped}
		if reason != "" {
			r.Phase = reason.Phase()
		}
		if got := phaseWords(r); !strings.Contains(got, want) || strings.Contains(got, "_") {
			t.Errorf("%s: %q", reason, got)
		}
	}
}
