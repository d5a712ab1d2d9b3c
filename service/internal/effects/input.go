package effects

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gowebpki/jcs"

	"github.com/reevehq/reeve/app/approval"
)

// textPrefix begins what is digested where RFC 8785 would lose something. No
// JSON begins like it.
const textPrefix = "reeve-effect-text-v1\n"

// Digest returns the SHA-256, as lower-case hex, of the RFC 8785 form of a
// tool's input, so that the order of keys and white space don't matter and
// everything else does. No input is {}. Input with numbers that a double can't
// hold enters as its exact text instead. What is not JSON, has a key twice or
// text that is not valid Unicode is refused.
func Digest(input []byte) (string, error) {
	if len(input) == 0 {
		input = []byte("{}")
	}
	if !utf8.Valid(input) || !json.Valid(input) {
		return "", errors.New("the input of the tool is not JSON in UTF-8")
	}
	canonical, err := jcs.Transform(input)
	if err != nil {
		return "", fmt.Errorf("the input of the tool has no one meaning (%w)", err)
	}
	exact, err := approval.ExactNumbers(input)
	if err != nil {
		return "", fmt.Errorf("the input of the tool: %w", err)
	}
	if !exact {
		canonical = append([]byte(textPrefix), input...)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// keep returns the JSON value as it is kept, and whether it was cut.
func keep(raw json.RawMessage) (json.RawMessage, bool, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, false, err
	}
	if !utf8.Valid(b.Bytes()) {
		return nil, false, errors.New("it is not valid UTF-8")
	}
	if b.Len() <= MaxKept {
		return b.Bytes(), false, nil
	}
	// Quotes and backslashes take two bytes in the string, two separators six.
	end, size := 0, len(`""`)
	for _, r := range b.String() {
		n := utf8.RuneLen(r)
		switch r {
		case '"', '\\':
			n = 2
		case '\u2028', '\u2029':
			n = 6
		}
		if size += n; size > MaxKept {
			break
		}
		end += utf8.RuneLen(r)
	}
	cut, err := encode(b.String()[:end])
	return cut, true, err
}

// encode is json.Marshal without the escaping of <, > and &, which would make
// what is kept longer.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// cutText returns at most n bytes of s, as valid UTF-8.
func cutText(s string, n int) string {
	return strings.ToValidUTF8(s[:min(len(s), n)], "")
}
