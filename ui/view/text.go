package view

import (
	"encoding/json"
	"strings"
)

// capital starts a word with a capital letter.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func encode(v any) (json.RawMessage, error) { return json.Marshal(v) }
