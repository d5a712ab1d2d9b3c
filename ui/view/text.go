package view

import (
	"encoding/json"
	"unicode"
	"unicode/utf8"
)

// capital starts a word with a capital letter.
func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToUpper(r)) + s[n:]
}

func encode(v any) (json.RawMessage, error) { return json.Marshal(v) }
