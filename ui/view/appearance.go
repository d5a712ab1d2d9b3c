package view

import (
	"slices"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/lang"

	"github.com/reevehq/reeve/ui/say"
	"github.com/reevehq/reeve/ui/view/kit"
)

// prefTheme is the preference that holds the chosen look; empty is the
// desktop's.
const prefTheme = "theme"

// looks are what can be chosen, as the preference and REEVE_THEME name it.
var looks = []string{"", "light", "dark"}

// dress gives the program a look.
func (d *desk) dress(look string) {
	d.app.Settings().SetTheme(kit.Theme{Mode: map[string]kit.Mode{"light": kit.Light, "dark": kit.Dark}[look]})
}

// appearanceCard chooses look and language. The look changes at once; windows
// keep the texts that they were made with, so another language counts from the
// next start.
type appearanceCard struct {
	d      *desk
	look   *kit.Segments
	choice *kit.Select
	again  *kit.Button
	wanted string // the language that the next start would speak
}

func newAppearanceCard(d *desk) *appearanceCard {
	c := &appearanceCard{d: d}
	look := slices.Index(looks, d.app.Preferences().String(prefTheme))
	c.look = kit.NewSegments(max(look, 0), func(i int) {
		d.app.Preferences().SetString(prefTheme, looks[i])
		d.dress(looks[i])
	}, say.T("As the system"), say.T("Light"), say.T("Dark"))
	chosen := 0
	options := []kit.Option{{Label: say.T("As the system")}}
	for i, l := range languages {
		options = append(options, kit.Option{Label: l.name})
		if l.tag == d.app.Preferences().String(prefLanguage) {
			chosen = i + 1
		}
	}
	c.choice = kit.NewSelect("", options, chosen, c.choose).Small()
	c.again = kit.NewButton(kit.Plain, say.T("Start again now"), func() {
		d.relaunch = true
		d.quit()
	}).Small()
	return c
}

func (c *appearanceCard) choose(i int) {
	tag := ""
	if i > 0 {
		tag = languages[i-1].tag
	}
	c.d.app.Preferences().SetString(prefLanguage, tag)
	c.wanted = spoken(tag, lang.SystemLocale().LanguageString())
	c.d.changed()
}

// key changes with everything that the card shows.
func (c *appearanceCard) key() string { return c.wanted }

func (c *appearanceCard) draw() []fyne.CanvasObject {
	line := func(name string, cells ...fyne.CanvasObject) fyne.CanvasObject {
		return kit.Sized(0, 40, kit.Pad(4, 14, 4, 14, kit.Row(0, append([]fyne.CanvasObject{kit.Fix(120, kit.Note(name))}, cells...)...)))
	}
	language := []fyne.CanvasObject{kit.Fix(200, c.choice), kit.Gap(12)}
	if c.wanted != "" && c.wanted != c.d.tongue.tag {
		language = append(language, kit.Grow(kit.Note(say.T("From the next start on")).CutEnd()), kit.Gap(8), c.again)
	}
	all := []fyne.CanvasObject{sectionHead(say.T("Appearance")),
		kit.Card(kit.Pad(4, 0, 4, 0, kit.Col(0, line(say.T("Theme"), c.look, kit.Spring()), line(say.T("Language"), language...))))}
	if c.d.tongue.problem != "" {
		all = append(all, kit.Gap(8), kit.NewParagraph(c.d.tongue.problem, kit.SizeSmall, kit.Ink))
	}
	return all
}
