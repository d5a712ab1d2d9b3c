package approval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// digestPrefix separates these digests from every other SHA-256, and from later
// ways to compute them.
const digestPrefix = "reeve-approval-v1\n"

// blobLimit is the size from which a value travels, and is digested, by its own
// digest.
const blobLimit = 64 << 10

// blob stands for a long value.
type blob struct {
	Digest string `json:"blob"`
	Bytes  int    `json:"bytes"`
}

// digestSubject is a Subject whose long values are replaced by their digests,
// so that a client can check the approval's digest before it has read them.
type digestSubject struct {
	Subject
	Command   any             `json:"command,omitempty"`
	Diff      any             `json:"diff,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	InputBlob any             `json:"input_blob,omitempty"` // own keys, so that no input can look like another's digest or text
	InputText string          `json:"input_text,omitempty"`
}

// Digest returns the SHA-256, as lower-case hex, of the prefix
// "reeve-approval-v1\n" and the RFC 8785 form of e. Command and diff of
// more than 64 KiB enter by their own digest, as {"blob":<sha256>,"bytes":n},
// and such input does under the key input_blob.
//
// The order of keys does not matter (in input up to 64 KiB); any other change gives another digest. To
// hold that, Digest refuses what JSON cannot carry exactly: text that is not
// valid UTF-8, input with the same key twice or with half a surrogate pair. Input
// with numbers that a double cannot hold enters as its exact text under the key
// input_text. A request whose digest fails must be refused.
func Digest(e Envelope) (string, error) {
	if err := validText(reflect.ValueOf(e), "approval"); err != nil {
		return "", err
	}
	s := digestSubject{Subject: e.Subject}
	if c := e.Subject.Command; c != "" {
		s.Command = orBlob([]byte(c), c)
	}
	if d := e.Subject.Diff; d != "" {
		s.Diff = orBlob([]byte(d), d)
	}
	if in := e.Subject.Input; len(in) > 0 {
		exact, err := ExactNumbers(in)
		if err != nil {
			return "", fmt.Errorf("digest of approval %s: its input is not JSON (%w); refuse the request", e.ID, err)
		}
		s.Input = nil
		switch {
		case len(in) > blobLimit:
			s.InputBlob = orBlob(in, nil)
		case exact:
			s.Input = in
		default:
			s.InputText = string(in)
		}
	}
	raw, err := json.Marshal(struct {
		ID      string        `json:"id"`
		Kind    Kind          `json:"kind"`
		Mission string        `json:"mission"`
		Attempt string        `json:"attempt"`
		Turn    int           `json:"turn"`
		Subject digestSubject `json:"subject"`
	}{e.ID, e.Kind, e.Mission, e.Attempt, e.Turn, s})
	if err != nil {
		return "", fmt.Errorf("digest of approval %s: %w; refuse the request", e.ID, err)
	}
	canonical, err := jcs.Transform(raw)
	if err != nil {
		return "", fmt.Errorf("digest of approval %s: %w; refuse the request", e.ID, err)
	}
	sum := sha256.Sum256(append([]byte(digestPrefix), canonical...))
	return hex.EncodeToString(sum[:]), nil
}

func orBlob(raw []byte, value any) any {
	if len(raw) <= blobLimit {
		return value
	}
	sum := sha256.Sum256(raw)
	return blob{Digest: hex.EncodeToString(sum[:]), Bytes: len(raw)}
}

// validText walks every string, because encoding/json replaces what is not
// UTF-8 and two different commands would get one digest.
func validText(v reflect.Value, where string) error {
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return fmt.Errorf("digest of an approval: %s is not valid UTF-8; refuse the request", where)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return validText(v.Elem(), where)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := validText(v.Field(i), v.Type().Field(i).Name); err != nil {
				return err
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := errors.Join(validText(it.Key(), where), validText(it.Value(), where)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if !utf8.Valid(v.Bytes()) {
				return fmt.Errorf("digest of an approval: %s is not valid UTF-8; refuse the request", where)
			}
			return nil
		}
		for i := range v.Len() {
			if err := validText(v.Index(i), where); err != nil {
				return err
			}
		}
	}
	return nil
}

// ExactNumbers reports whether RFC 8785 keeps every number in raw apart from
// its neighbours: it turns numbers into doubles, where 9007199254740993 and
// 9007199254740992 are the same.
func ExactNumbers(raw []byte) (bool, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	exact := true
	for {
		token, err := d.Token()
		if err == io.EOF {
			return exact, nil
		}
		if err != nil {
			return false, err
		}
		n, ok := token.(json.Number)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(n.String(), 64)
		if err != nil || decimal(n.String()) != decimal(strconv.FormatFloat(f, 'e', -1, 64)) {
			exact = false
		}
		if f == 0 && n.String()[0] == '-' {
			exact = false // RFC 8785 writes -0 as 0
		}
	}
}

// decimal writes a JSON number in one way: its digits without outer zeros, and
// the power of ten of the last one.
func decimal(s string) string {
	s, negative := strings.CutPrefix(s, "-")
	mantissa, power, _ := strings.Cut(strings.ToLower(s), "e")
	exponent, _ := strconv.Atoi(power) // out of range: clamped, and then unequal
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= len(fraction)
	digits := strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(short)
	if short == "" {
		exponent = 0
	}
	return fmt.Sprint(negative, short, "e", exponent)
}
