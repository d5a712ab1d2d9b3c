package acp

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/service/provider"
)

func openError(doing string, err error, loading bool) error {
	code := classify(err)
	if loading && code != mission.AuthenticationRequired && missing(err) {
		code = mission.MissingSession
	}
	return &provider.OpenError{Code: code, Err: fmt.Errorf("%s: %w", doing, err)}
}

// missing says whether an error to loading a session means that the agent does
// not have it. Agents disagree on the code; -32603 stands also for a lost agent,
// so there the words count.
func missing(err error) bool {
	var r *sdk.RequestError
	if !errors.As(err, &r) {
		return false
	}
	data, _ := json.Marshal(r.Data)
	text := strings.ToLower(r.Message + " " + string(data))
	return r.Code == -32002 || r.Code == -32602 || strings.Contains(text, "not found") || strings.Contains(text, "no previous sessions") ||
		strings.Contains(text, "session identifier") || strings.Contains(text, `"service":"session"`)
}

// failures are the words and numbers by which agents tell why a model could not
// be asked, the first that matches. Most pass on what the model service said.
var failures = sync.OnceValue(func() []struct {
	code mission.Code
	text *regexp.Regexp
} {
	return []struct {
		code mission.Code
		text *regexp.Regexp
	}{
		{mission.PermissionRequired, regexp.MustCompile(`billing_error|model_not_found|insufficient_quota|credit balance|\b(402|403|404)\b|forbidden`)},
		{mission.RateLimited, regexp.MustCompile(`rate.?limit|usage.?limit|\b429\b|too many requests|resource.?exhausted`)},
		{mission.AuthenticationRequired, regexp.MustCompile(`authentication_failed|\b401\b|unauthorized|api.?key|not logged in|auth(entication)? required`)},
	}
})

// classify gives the code of an error of a call:
//
//	-32000                                    authentication_required
//	billing, unknown model, 402, 403, 404     permission_required
//	429 and its words                         rate_limited
//	401 and its words                         authentication_required
//	anything else                             local_execution_failure
//
// Codes of JSON-RPC are negative; some agents use the status of HTTP instead.
func classify(err error) mission.Code {
	var r *sdk.RequestError
	if !errors.As(err, &r) {
		return mission.LocalExecutionFailure
	}
	if r.Code == -32000 {
		return mission.AuthenticationRequired
	}
	data, _ := json.Marshal(r.Data)
	return classifyText(fmt.Sprintf("%d %s %s", r.Code, r.Message, data))
}

func classifyText(text string) mission.Code {
	text = strings.ToLower(text)
	for _, f := range failures() {
		if f.text.MatchString(text) {
			return f.code
		}
	}
	return mission.LocalExecutionFailure
}
