package view

import (
	"strings"
	"testing"
	"unicode"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/view/kit"
)

func TestHarmless(t *testing.T) {
	for in, want := range map[string]string{
		"Claude Code asks":                 "Claude Code asks",
		"$(calc)":                          "_(calc)",
		"\u201d; calc; \u201c":             "'; calc; '",
		"\u201e$env:TOKEN\u201f":           "'_env:TOKEN'",
		"`$x \"a\" \\\"":                   "__x 'a' _'",
		"two\nlines\tand\u2028more":        "two lines and more",
		"Prüfung: 3 Aufträge warten…":      "Prüfung: 3 Aufträge warten…",
		"承認を待っています。":                       "承認を待っています。",
		"bidi \u202e and zero \u200b \x00": "bidi _ and zero _ _",
		"not UTF-8 \xff":                   "not UTF-8 _",
	} {
		if got := harmless(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	// No character at all gets through but those that are known to be harmless.
	for r := range unicode.MaxRune + 1 {
		for _, got := range harmless(string(r)) {
			if !unicode.In(got, unicode.L, unicode.M, unicode.Nd) && !strings.ContainsRune(" .,:;!?()[]<>-+/=_'·…–—‹›、。・「」", got) {
				t.Fatalf("U+%04X became %q", r, got)
			}
		}
	}
}

// What an agent wrote never comes to Fyne as it is.
func TestFyneIsToldWords(t *testing.T) {
	r := newRig(t, kit.Light)
	told := make(chan func(), 1)
	r.desk.do = func(f func()) { told <- f }
	n := &busNotifier{d: r.desk, queue: make(chan model.Note, 1)} // no session bus
	r.background(n.listen)
	test.AssertNotificationSent(t, fyne.NewNotification("Claude Code asks_(calc)", "run '_calc_'"), func() {
		n.send(model.Note{Title: "Claude Code asks$(calc)", Body: "run “`calc`\u201d"})
		(<-told)()
	})
}
