// Package locale makes the locale C.UTF-8, which is legal and common, readable
// for Fyne: it takes the C for a language, and logs an error at its start and
// for every font. Import it for its effect. It imports nothing but the standard
// library, so it is initialised before Fyne looks.
package locale

import (
	"os"
	"strings"
)

func init() {
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		v := os.Getenv(name)
		if v == "" {
			continue
		}
		// Programs that are started from here see it, too: it says the language
		// that C has.
		if language, _, _ := strings.Cut(v, "."); v != language && (language == "C" || language == "POSIX") && os.Getenv("LANGUAGE") == "" {
			_ = os.Setenv("LANGUAGE", "en")
		}
		return
	}
}
