package service

import (
	"testing"

	"github.com/reevehq/reeve/service/internal/store"
)

// One entry of the audit log is not “1 entries”.
func TestCheckCountsInWords(t *testing.T) {
	for n, want := range []string{"0 entries, unbroken.", "1 entry, unbroken.", "2 entries, unbroken."} {
		var c checker
		c.audit(store.AuditReport{Entries: uint64(n)}, nil)
		if len(c.out) != 1 || !c.out[0].OK || c.out[0].Message != want {
			t.Errorf("%+v, want %q", c.out, want)
		}
	}
}
