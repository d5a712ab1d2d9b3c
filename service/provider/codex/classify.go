package codex

import (
	"encoding/json"
	"strings"

	"github.com/reevehq/reeve/app/mission"
)

// turnError is how the program describes a failure.
type turnError struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"` // a word, or an object with one word as its key
}

// info returns the word and the HTTP status, 0 without one.
func (e *turnError) info() (kind string, status int) {
	if json.Unmarshal(e.Info, &kind) == nil {
		return kind, 0
	}
	var detail map[string]struct {
		Status *int `json:"httpStatusCode"`
	}
	json.Unmarshal(e.Info, &detail)
	for k, v := range detail {
		kind = k
		if v.Status != nil {
			status = *v.Status
		}
	}
	return kind, status
}

// code classifies a failed turn. Whether it is tried again follows from the
// code:
//
//	403, 402, unknown model or endpoint      permission_required   (a person must change the account or the model)
//	401, signed out                          authentication_required
//	429, a plan's allowance is used up       rate_limited
//	other 4xx, refused for what it asks      unknown               (the same request would fail again)
//	5xx, cut or refused connections, others  local_execution_failure
func (e *turnError) code() mission.Code {
	if e == nil {
		return mission.LocalExecutionFailure
	}
	kind, status := e.info()
	switch {
	case status == 401, kind == "unauthorized":
		return mission.AuthenticationRequired
	case status == 402, status == 403, status == 404, kind == "modelNotFound":
		return mission.PermissionRequired
	case status == 429, kind == "usageLimitExceeded", kind == "rateLimitExceeded", kind == "sessionBudgetExceeded":
		return mission.RateLimited
	case status >= 400 && status < 500:
		return mission.Unknown
	}
	switch kind {
	case "badRequest", "contextWindowExceeded", "cyberPolicy", "bioPolicy", "misalignmentPolicyViolation", "tooManyDenials", "inferenceHookDenied":
		return mission.Unknown
	case "other":
		// Cut streams and refused requests come under the same word.
		if strings.HasPrefix(strings.TrimSpace(e.Message), "{") {
			return mission.Unknown
		}
	}
	return mission.LocalExecutionFailure
}

// rpcError is the error of a reply.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

// missing reports whether a thread to resume is not there.
func (e *rpcError) missing() bool {
	for _, s := range []string{"no rollout found for thread id", "thread not found", "invalid session id"} {
		if strings.Contains(e.Message, s) {
			return true
		}
	}
	return false
}
