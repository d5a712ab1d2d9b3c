package demo

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	sdk "github.com/coder/acp-go-sdk"
)

// failures are the words of a model service for a status. Agents pass them on in
// an internal error, with a kind beside them.
var failures = map[int]struct{ kind, text string }{
	http.StatusUnauthorized:        {"authentication_failed", "the key is not valid"},
	http.StatusPaymentRequired:     {"billing_error", "the credit balance is too low"},
	http.StatusForbidden:           {"permission_error", "this key may not use the model"},
	http.StatusNotFound:            {"model_not_found", "there is no such model"},
	http.StatusTooManyRequests:     {"rate_limit", "too many requests"},
	http.StatusInternalServerError: {"api_error", "internal server error"},
	statusOverloaded:               {"overloaded", "overloaded"},
}

// statusOverloaded is what model services answer that have too much to do.
const statusOverloaded = 529

// refused is how an agent fails whose model service answered with a status. An
// agent without a sign-in has a code of its own in the protocol.
func refused(status int, more string) error {
	if status == http.StatusUnauthorized {
		return sdk.NewAuthRequired(map[string]any{"status": status})
	}
	f, ok := failures[status]
	if !ok {
		f.kind, f.text = "unknown", http.StatusText(status)
	}
	return &sdk.RequestError{Code: -32603, Message: fmt.Sprintf("Internal error: API Error: %d %s%s", status, f.text, more), Data: map[string]any{"errorKind": f.kind}}
}

// broken is how an agent fails whose model service could not be asked, or went
// away.
func broken(why string) error {
	return &sdk.RequestError{Code: -32603, Message: "Internal error: API Error: " + why, Data: map[string]any{"errorKind": "connection_error"}}
}

// fail fails as demo:fail with an argument asks. Without an error the turn goes on.
func (t *turn) fail(arg string) error {
	first, rest, _ := strings.Cut(arg, " ")
	rest = strings.TrimSpace(rest)
	switch first {
	case "cut":
		if err := t.say("I begin to say something, but"); err != nil {
			return err
		}
		return broken("the stream was cut off")
	case "refused":
		return broken("the connection was refused")
	}
	status, err := strconv.Atoi(first)
	if _, known := failures[status]; err != nil || !known {
		return sdk.NewInternalError(map[string]any{"error": "demo:fail"})
	}
	if rest == "once" {
		return t.say("The model service answered %d; I ask again.\n", status)
	}
	if seconds, err := strconv.Atoi(rest); err == nil {
		return refused(status, fmt.Sprintf("; try again in %d seconds", seconds))
	}
	return refused(status, "")
}
