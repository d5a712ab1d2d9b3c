package view

import (
	"encoding/json"
	"strings"
	_ "unsafe" // for go:linkname

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/lang"

	"github.com/reevehq/reeve/assets"
	"github.com/reevehq/reeve/ui/say"
)

// prefLanguage is the preference that holds the chosen language's tag; empty is
// the system's.
const prefLanguage = "language"

// languages are those that the program speaks, each by its own name; where that
// may lack its letters, in English too.
var languages = []struct{ tag, name string }{{"en", "English"}, {"de", "Deutsch"}, {"ja", "日本語 (Japanese)"}}

// tongue is the language that the program speaks, and why it is another one
// than was asked for.
type tongue struct{ tag, problem string }

// setLang makes Fyne's lang speak a language, in Fyne's own menus and dialogs
// too. Fyne itself offers only the system's; a version that has no such function
// does not link.
//
//go:linkname setLang fyne.io/fyne/v2/lang.setupLang
func setLang(tag string)

// spoken finds the language for a choice: the chosen one, else the system's if
// the program speaks it, else English.
func spoken(choice, system string) string {
	primary, _, _ := strings.Cut(strings.ReplaceAll(system, "_", "-"), "-")
	for _, tag := range []string{choice, strings.ToLower(primary)} {
		for _, l := range languages {
			if l.tag == tag {
				return tag
			}
		}
	}
	return "en"
}

// speak makes all that is said from now on be said in a language, or in English
// where that can't be. draws tells whether there are fonts for some letters.
func speak(tag string, draws func(letters string) bool) tongue {
	english := func(problem string) tongue {
		setLang("en")
		say.In(nil) // it stands in the sources
		return tongue{"en", problem}
	}
	switch {
	case tag == "en":
		return english("")
	case tag == "ja" && !draws("あ漢"):
		return english("No font with Japanese characters was found on this computer, so the program speaks English. Install one, such as Noto Sans CJK, and start the program again.")
	}
	w, err := readWords(tag)
	if err != nil {
		return english("The texts in the chosen language could not be read: " + err.Error() + ".")
	}
	say.In(w)
	return tongue{tag, ""}
}

// drawable tells whether the embedded or the system's fonts have all letters of
// s: what none has is drawn as wide as a character that does not exist.
func drawable(s string) bool {
	none := fyne.MeasureText("\U0010FFFE", 100, fyne.TextStyle{}).Width
	for _, r := range s {
		if fyne.MeasureText(string(r), 100, fyne.TextStyle{}).Width == none {
			return false
		}
	}
	return true
}

// words are the texts of a language, by their English.
type words struct {
	texts   map[string]string
	plurals map[string]bool
}

func readWords(tag string) (words, error) {
	if err := lang.AddTranslationsFS(assets.Translations, "translations"); err != nil {
		return words{}, err
	}
	setLang(tag) // adding went back to the system's
	data, err := assets.Translations.ReadFile("translations/" + tag + ".json")
	if err != nil {
		return words{}, err
	}
	var file map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		return words{}, err
	}
	w := words{texts: map[string]string{}, plurals: map[string]bool{}}
	for key, text := range file {
		if _, one := text.(string); one {
			w.texts[key] = lang.X(key, key)
		} else {
			w.plurals[key] = true
		}
	}
	return w, nil
}

func (w words) Text(key string) string {
	if s, ok := w.texts[key]; ok {
		return s
	}
	return key
}

func (w words) Plural(key string, n int) string {
	if !w.plurals[key] {
		return key // lang would log it
	}
	return lang.XN(key, key, n)
}
