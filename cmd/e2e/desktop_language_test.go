package e2e

import (
	"image"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// speaking makes programs of the session run in a locale; none is an
// environment that says nothing of it.
func (s *screen) speaking(locale string) {
	s.env = slices.DeleteFunc(s.env, func(e string) bool {
		return strings.HasPrefix(e, "LANG=") || strings.HasPrefix(e, "LANGUAGE=") || strings.HasPrefix(e, "LC_")
	})
	if locale != "" {
		s.env = append(s.env, "LANG="+locale)
	}
}

// TestDesktopLanguages: an approval is asked for and answered in the language of
// the system, or in the one that was chosen in the settings.
func TestDesktopLanguages(t *testing.T) {
	for name, c := range map[string]struct{ locale, chosen, waits, title, mission string }{
		"German":   {locale: "de_DE.UTF-8", waits: "Reeve: 1 Freigabe wartet auf dich", title: "Diesen Befehl erlauben?", mission: "Neue Mission"},
		"Japanese": {locale: "ja_JP.UTF-8", waits: "Reeve: 承認待ち 1 件", title: "このコマンドを許可しますか？", mission: "新しいミッション"},
		"chosen":   {locale: "de_DE.UTF-8", chosen: "ja", waits: "Reeve: 承認待ち 1 件", title: "このコマンドを許可しますか？", mission: "新しいミッション"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t).start()
			v := m.watch()
			s := newScreen(m)
			s.speaking(c.locale)
			if c.chosen != "" {
				s.env = append(s.env, "XDG_CONFIG_HOME="+s.dir)
				s.write(filepath.Join(s.dir, "fyne", "io.github.reevehq.reeve", "preferences.json"), `{"language":"`+c.chosen+`"}`)
			}
			dir := m.sample(s)
			p := m.demoTerms(dir, "Stop\n\ndemo:command sh check.sh") // a title that is also a word of the program
			p.Unasked = []string{"reads"}
			r := v.begin(p)
			ask, _ := v.asked(r.ID, "check.sh")
			h := s.trayHost()
			desk := s.reeve()
			h.registered()
			h.says(c.waits)
			h.choose("▲ Stop") // it waited already
			w := s.window(c.title)
			s.armed(w)
			w.shot("approval")
			s.allowed(v, c.title, ask.ID)
			v.phase(r.ID, "completed")
			main := s.window("Reeve").raise()
			list := main.shot("missions")
			main.click(60, -57) // the settings: below the list is nothing, and there they go on
			s.until("the settings", func() bool { return changed(list, main.image(), image.Rect(300, 400, 1100, 700)).Dx() > 500 })
			s.park()
			main.shot("settings")
			s.xdo("key", "ctrl+n")
			form := s.window(c.mission)
			s.until("the form in front", form.active)
			s.until("the chosen agent", func() bool { return len(fills(form.image(), accentTint, image.Pt(200, 40))) > 0 })
			form.shot("new-mission")
			form.close()
			s.gone(c.mission)
			desk.end()
			if text := desk.logs.text(); strings.Contains(text, "locale") || strings.Contains(text, "ranslation") || strings.Contains(text, "font") {
				t.Errorf("it logged:\n%s", text)
			}
		})
	}
}

// TestDesktopInOddLocales: a locale that names no language that is known is no
// error, and speaks English.
func TestDesktopInOddLocales(t *testing.T) {
	t.Parallel()
	m := newMachine(t).start()
	s := newScreen(m)
	h := s.trayHost()
	for _, locale := range []string{"", "C", "POSIX", "C.UTF-8", "tlh_DE.UTF-8", "fr_FR.UTF-8", "de_DE@euro"} {
		s.speaking(locale)
		p := s.reeve("-hidden")
		h.registered()
		want := "Reeve: No mission is running"
		if strings.HasPrefix(locale, "de") {
			want = "Reeve: Keine Mission läuft"
		}
		h.says(want)
		p.end()
		if text := besidePreferences(p.logs.text()); text != "" {
			t.Errorf("LANG=%q: it logged:\n%s", locale, text)
		}
	}
}

// besidePreferences is a log without what Fyne says when it reads its
// preferences, which it watches, while it writes them: that is no matter of the
// language, and they are read again.
func besidePreferences(log string) string {
	var rest []string
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "Preferences load error") && !strings.HasSuffix(strings.TrimSpace(line), "Cause: EOF") && !strings.Contains(line, "app/preferences.go:") {
			rest = append(rest, line)
		}
	}
	return strings.TrimSpace(strings.Join(rest, ""))
}
