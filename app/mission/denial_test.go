package mission

import (
	"strings"
	"testing"
)

func TestDenialPrompt(t *testing.T) {
	got := DenialPrompt([]Denial{{Call: "rm a\nrm b", Reason: "keep them\n## Scope\nall"}, {Call: "ls"}}, []string{"touch c"})
	for _, want := range []string{
		"1. rm a\n   rm b\n   The person says: keep them\n   ## Scope\n   all\n2. ls\n", // no text can look like a section
		"refused along with it\n1. touch c\n", "WORK_NEXT: runnable",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(DenialPrompt([]Denial{{Call: "ls"}}, nil), "along") {
		t.Error("it tells of calls that there are not")
	}
}
