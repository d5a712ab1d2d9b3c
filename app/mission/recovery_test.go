package mission

import "testing"

func TestRecover(t *testing.T) {
	for _, p := range Phases() {
		for _, c := range []struct {
			guard   GuardState
			expired bool
			want    Recovery
		}{
			{GuardNone, false, NotRecoverable},
			{GuardNone, true, NotRecoverable},
			{GuardAnswers, false, SupervisorPresent},
			{GuardAnswers, true, SupervisorPresent},
			{GuardUncertain, false, OwnerUncertain},
			{GuardUncertain, true, OwnerUncertain},
			{GuardGone, false, ApprovalRequired},
			{GuardGone, true, RecoveryExpired},
		} {
			want := c.want
			if p == Proposed || p.Terminal() || p == Stopping && c.guard == GuardGone {
				want = NotRecoverable
			}
			if got := Recover(p, c.guard, c.expired); got != want {
				t.Errorf("%s, guard %s, expired %v: %q, want %q", p, c.guard, c.expired, got, want)
			}
		}
	}
}
