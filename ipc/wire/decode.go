package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// DecodeRequest reads one line as a request. With an error (always
// CodeInvalidParams) the returned request still carries the id, where one could
// be salvaged, so that the refusal can be matched to its call.
func DecodeRequest(line []byte) (Request, *Error) {
	var r Request
	if checkText(line) != nil {
		return Request{ID: SalvageID(line)}, Errorf(CodeInvalidParams, "Unreadable request: %v.", ErrNotText)
	}
	err := json.Unmarshal(line, &r)
	var wrong *json.UnmarshalTypeError
	if err != nil && !errors.As(err, &wrong) {
		return Request{ID: SalvageID(line)}, Errorf(CodeInvalidParams,
			"The line is not a JSON object: %v. Send one request per line.", err)
	}
	id := r.ID
	if !validID(id) {
		r.ID = ""
	}
	if bytes.Equal(bytes.TrimSpace(r.Params), []byte("null")) {
		r.Params = nil
	}
	switch {
	case wrong != nil && wrong.Field == "":
		return r, Errorf(CodeInvalidParams, "The line must be a JSON object, not a %s.", wrong.Value)
	case wrong != nil:
		return r, wrongType(wrong)
	case id == "":
		return r, InvalidField("id", "is missing or empty")
	case len(id) > MaxID:
		return r, InvalidField("id", "is longer than 128 bytes")
	case r.ID == "":
		return r, InvalidField("id", "holds a NUL")
	case r.Method == "":
		return r, InvalidField("method", "is missing or empty")
	case len(r.Method) > MaxID:
		return r, InvalidField("method", "is longer than 128 bytes")
	case strings.ContainsRune(r.Method, 0):
		return r, InvalidField("method", "holds a NUL")
	case len(r.Params) > 0 && r.Params[0] != '{':
		return r, InvalidField("params", "must be an object")
	}
	return r, nil
}

// DecodeParams reads the params of a request into a struct. Unknown fields are
// ignored and absent params are empty ones; a wrong type and a NUL are refused
// with the field's name.
func DecodeParams(raw json.RawMessage, into any) *Error {
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			wrong.Field = asSent(reflect.TypeOf(into).Elem(), wrong.Field)
			return wrongType(wrong)
		}
		return InvalidField("params", "can't be read: "+err.Error())
	}
	// A NUL can only come escaped. The cheap test spares nearly all
	// requests the walk.
	if bytes.Contains(raw, []byte(`\u0000`)) {
		var v any
		if json.Unmarshal(raw, &v) == nil {
			if at, found := findNUL(v, ""); found {
				return InvalidField(at, "holds a NUL")
			}
		}
	}
	return nil
}

// asSent takes the names of embedded structs out of the path of a field, which
// a client never wrote.
func asSent(t reflect.Type, field string) string {
	for {
		name, rest, more := strings.Cut(field, ".")
		if !more || t.Kind() != reflect.Struct {
			return field
		}
		f, ok := t.FieldByName(name)
		if !ok || !f.Anonymous {
			return field
		}
		t, field = f.Type, rest
	}
}

// InvalidField refuses a request because of one field, named in the details.
func InvalidField(field, problem string) *Error {
	return Errorf(CodeInvalidParams, "%s %s", field, problem).With(map[string]string{"field": field})
}

func wrongType(e *json.UnmarshalTypeError) *Error {
	want := "another type"
	switch k := e.Type.Kind(); {
	case k == reflect.String:
		want = "a string"
	case k == reflect.Bool:
		want = "true or false"
	case k >= reflect.Int && k <= reflect.Uint64 && strings.HasPrefix(e.Value, "number"):
		want = "a whole number within range"
	case k >= reflect.Int && k <= reflect.Float64:
		want = "a number"
	case k == reflect.Slice || k == reflect.Array:
		want = "a list"
	case k == reflect.Struct || k == reflect.Map:
		want = "an object"
	}
	return InvalidField(e.Field, "must be "+want)
}

func findNUL(v any, at string) (string, bool) {
	switch v := v.(type) {
	case string:
		return at, strings.ContainsRune(v, 0)
	case []any:
		for _, x := range v {
			if w, ok := findNUL(x, at); ok {
				return w, true
			}
		}
	case map[string]any:
		for k, x := range v {
			in := k
			if at != "" {
				in = at + "." + k
			}
			if strings.ContainsRune(k, 0) {
				return at, true
			}
			if w, ok := findNUL(x, in); ok {
				return w, true
			}
		}
	}
	return "", false
}

func validID(id string) bool {
	return id != "" && len(id) <= MaxID && !strings.ContainsRune(id, 0)
}

// SalvageID finds the id in a line that is no valid request, or in the start of
// one that is too long. It returns "" when there is none to trust.
func SalvageID(line []byte) string {
	d := json.NewDecoder(bytes.NewReader(line))
	depth, key, wantKey := 0, "", false
	for {
		t, err := d.Token()
		if err != nil {
			return ""
		}
		if b, ok := t.(json.Delim); ok {
			if b == '{' || b == '[' {
				depth++
				if depth == 1 && b != '{' {
					return ""
				}
			} else {
				depth--
			}
			if depth == 0 {
				return ""
			}
			wantKey = depth == 1
			continue
		}
		if depth != 1 {
			if depth == 0 {
				return ""
			}
			continue
		}
		s, isString := t.(string)
		if wantKey {
			key, wantKey = s, false
			continue
		}
		if key == "id" {
			if isString && validID(s) {
				return s
			}
			return ""
		}
		wantKey = true
	}
}
