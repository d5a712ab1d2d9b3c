package view

import (
	"bytes"
	"log"
	"os"
	"slices"
	"strings"
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/lang"
	"fyne.io/fyne/v2/test"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// inLanguage makes the program speak a language until the end of the test. There
// is an app already.
func inLanguage(t *testing.T, tag string) {
	t.Helper()
	t.Cleanup(func() { speak("en", drawable) })
	if got := speak(tag, drawable); got.tag != tag {
		t.Fatalf("it speaks %q: %s", got.tag, got.problem)
	}
}

func TestSpoken(t *testing.T) {
	for _, c := range []struct{ choice, system, want string }{
		{"", "de-DE", "de"}, {"", "de_AT", "de"}, {"", "ja", "ja"}, {"", "JA-jp", "ja"}, {"", "en-GB", "en"},
		{"", "fr-FR", "en"}, {"", "", "en"}, {"", "C", "en"}, {"", "POSIX", "en"}, {"", "dev", "en"},
		{"ja", "de-DE", "ja"}, {"en", "de-DE", "en"}, {"tlh", "de-DE", "de"}, {"tlh", "", "en"},
	} {
		if got := spoken(c.choice, c.system); got != c.want {
			t.Errorf("chosen %q on %q: %q, want %q", c.choice, c.system, got, c.want)
		}
	}
}

func TestLanguages(t *testing.T) {
	test.NewTempApp(t)
	for tag, want := range map[string][]string{
		"en": {"Deny", "1 file", "3 files", "Copy"},
		"de": {"Ablehnen", "1 Datei", "3 Dateien", "Kopieren"},
		"ja": {"拒否", "ファイル 1 個", "ファイル 3 個", "コピー"},
	} {
		inLanguage(t, tag)
		got := []string{say.T("Deny"), say.N(1, "%d file", "%d files"), say.N(3, "%d file", "%d files"), lang.L("Copy")}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tag, got, want)
		}
	}
	if got := speak("ja", func(s string) bool { return s[0] < 0x80 }); got.tag != "en" || !strings.Contains(got.problem, "Noto Sans CJK") || say.T("Deny") != "Deny" {
		t.Errorf("without a font for it: %+v, %q", got, say.T("Deny"))
	}
	if drawable("A\U0010FFFE") || !drawable("Aß") {
		t.Error("it is not known what can be drawn")
	}
}

// What others wrote is never translated, whatever it is.
func TestNamesAreNotTranslated(t *testing.T) {
	r := newRig(t, kit.Light)
	busy(t, r)
	m, _ := r.st.Mission("m-retry")
	m.Title, m.Revision, m.Activity = "Stop", m.Revision+1, &wire.Activity{Tool: "Deny", Detail: "Allow"}
	know(r, wire.TopicMissions, m)
	inLanguage(t, "de")
	row, _ := r.st.Row("m-retry", r.clock)
	if row.Title != "Stop" || !strings.Contains(row.Detail.String(), "Deny") || row.Detail.Code != "Allow" || row.Word != "arbeitet" {
		t.Errorf("%+v", row)
	}
}

// A longer language must not push anything out of its window, nor out of its
// button: it may be the one that matters. And nothing that is drawn lacks a
// text, which Fyne would log.
func TestLanguagesFitTheirWindows(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	for _, tag := range []string{"de", "ja"} {
		for _, p := range pictures {
			if tag == "ja" && !strings.HasPrefix(p.name, "approval") {
				continue // German is the longest; what decides is tried in both
			}
			r := newRig(t, kit.Light)
			inLanguage(t, tag)
			o := p.draw(t, r)
			w := test.NewTempWindow(t, o)
			w.SetPadded(false)
			w.Resize(p.size)
			if m := o.MinSize(); m.Width > p.size.Width {
				t.Errorf("%s: %s needs %v and has %v", tag, p.name, m, p.size)
			}
			for _, b := range shownButtons(o) {
				x, width := fyne.CurrentApp().Driver().AbsolutePositionForObject(b).X, b.Size().Width
				if x < 0 || x+width > p.size.Width {
					t.Errorf("%s: %s: %q stands outside, from %v to %v", tag, p.name, b.Label(), x, x+width)
				}
				if need := b.MinSize().Width - 8; width < need { // the space beside its label may be less
					t.Errorf("%s: %s: %q is %v wide and needs %v", tag, p.name, b.Label(), width, need)
				}
			}
		}
	}
	if text := logged.String(); strings.Contains(text, "Translation failure") {
		t.Error(text)
	}
}

// shownButtons finds every button that is shown.
func shownButtons(o fyne.CanvasObject) []*kit.Button {
	if !o.Visible() {
		return nil
	}
	var out []*kit.Button
	switch v := o.(type) {
	case *kit.Button:
		return []*kit.Button{v}
	case *fyne.Container:
		for _, c := range v.Objects {
			out = append(out, shownButtons(c)...)
		}
	case fyne.Widget:
		for _, c := range test.WidgetRenderer(v).Objects() {
			out = append(out, shownButtons(c)...)
		}
	}
	return out
}

// What a person reads most, in the other languages.
func TestPicturesInLanguages(t *testing.T) {
	for _, tag := range []string{"de", "ja"} {
		for _, p := range pictures {
			if !slices.Contains([]string{"missions", "new-mission", "approval-command", "approval-start"}, p.name) {
				continue
			}
			t.Run(tag+"-"+p.name, func(t *testing.T) {
				r := newRig(t, kit.Light)
				inLanguage(t, tag)
				r.picture(tag+"-"+p.name, p.draw(t, r), p.size)
			})
		}
	}
}

func TestAppearanceIsChosen(t *testing.T) {
	r := newRig(t, kit.Light)
	r.tongue = tongue{tag: "en"}
	c := newAppearanceCard(r.desk)
	if all, shown := labels(&fyne.Container{Objects: c.draw()}); shown["Start again now"] != nil || slices.Contains(all, "From the next start on") {
		t.Errorf("it would change without a choice: %q", all)
	}
	c.choose(2)
	all, shown := labels(&fyne.Container{Objects: c.draw()})
	if got := r.app.Preferences().String(prefLanguage); got != "de" || shown["Start again now"] == nil || !slices.Contains(all, "From the next start on") {
		t.Errorf("kept %q, shown %q", got, all)
	}
	if again := newAppearanceCard(r.desk); again.choice.Chosen() != 2 {
		t.Error("the choice is forgotten")
	}
	test.Tap(shown["Start again now"])
	if !r.relaunch {
		t.Error("it does not start again")
	}
	c.choose(1)
	if _, shown := labels(&fyne.Container{Objects: c.draw()}); r.app.Preferences().String(prefLanguage) != "en" || shown["Start again now"] != nil {
		t.Error("English can't be chosen back")
	}
	for i, look := range looks {
		c.look.Set(i)
		c.look.OnChanged(i)
		mode := r.app.Settings().Theme().(kit.Theme).Mode
		if r.app.Preferences().String(prefTheme) != look || int(mode) != i {
			t.Errorf("chosen %q: kept %q, shown %v", look, r.app.Preferences().String(prefTheme), mode)
		}
	}
	r.tongue.problem = "No font."
	if all, _ := labels(&fyne.Container{Objects: c.draw()}); !slices.Contains(all, "No font.") {
		t.Errorf("it is not said why it speaks English: %q", all)
	}
}
