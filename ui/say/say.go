// Package say puts the program's own words into a person's language. The
// English text stands in the sources and is its own key; where nobody gave a
// Language, as on the command line, it is what is said. What the service, git
// and the agents wrote is passed through as it is.
package say

import (
	"fmt"
	"sync/atomic"
)

// Language finds texts by their English. What it does not have it gives back.
type Language interface {
	// Text is the text of a key.
	Text(key string) string
	// Plural is the form for n of a key, which is the English plural.
	Plural(key string, n int) string
}

var language atomic.Pointer[Language]

// In makes everything that is said from now on be said in l; nil is English.
// Texts that were said stay as they are, so choose before the first window.
func In(l Language) {
	if l == nil {
		language.Store(nil)
		return
	}
	language.Store(&l)
}

// T says a text, with the arguments that its verbs want.
func T(text string, args ...any) string {
	text = Word(text)
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, args...)
}

// N says a text that depends on a number: one is the English for 1, many for
// all others. The first verb of both, or %[1]d, is n.
func N(n int, one, many string, args ...any) string {
	text := many
	if l := language.Load(); l != nil {
		text = (*l).Plural(many, n)
	}
	if n == 1 && text == many {
		text = one
	}
	return fmt.Sprintf(text, append([]any{n}, args...)...)
}

// Key marks a text that is said elsewhere, with Word. It gives back the text.
func Key(text string) string { return text }

// Word says a text that is not written out where it is said. Anything that is
// no Key comes back as it was: give it nothing that others wrote, lest a
// mission called “Stop” be translated.
func Word(key string) string {
	if l := language.Load(); l != nil && key != "" {
		return (*l).Text(key)
	}
	return key
}

// As says a text whose English has more than one meaning; sense tells them
// apart for translators, and is never shown.
func As(sense, text string) string {
	key := sense + ": " + text
	if s := Word(key); s != key {
		return s
	}
	return text
}
