// Package locale makes locales that are legal and common readable for Fyne, which
// logs an error at its start and for every font of others: of C.UTF-8 it takes
// the C for a language, and of de_DE@euro the @euro for a part of the country.
// Import it for its effect. It imports nothing but the standard
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
		// that the locale has.
		language, _, encoded := strings.Cut(v, ".")
		language, _, modified := strings.Cut(language, "@")
		if encoded && (language == "C" || language == "POSIX") {
			language, modified = "en", true
		}
		if modified && os.Getenv("LANGUAGE") == "" {
			_ = os.Setenv("LANGUAGE", language)
		}
		return
	}
}
