package claude

import (
	"strings"

	"github.com/reevehq/reeve/app/mission"
)

// failure is what the program said about a failed turn.
type failure struct {
	kind   string // error of the assistant message
	status int    // HTTP status, 0 without one
	text   string // errors of the result and the end of stderr
}

// code classifies a failure. Whether it is tried again follows from the code:
//
//	missing conversation                     missing_session
//	403, billing, unknown model or endpoint  permission_required   (a person must change the account or the model)
//	401, not logged in                       authentication_required
//	429                                      rate_limited
//	other 4xx                                unknown               (the same request would fail again)
//	5xx, cut or refused connections, others  local_execution_failure
func (f failure) code() mission.Code {
	switch {
	case strings.Contains(f.text, "No conversation found with session ID"):
		return mission.MissingSession
	case f.status == 403, f.kind == "billing_error", f.status == 402, f.kind == "model_not_found", f.status == 404:
		return mission.PermissionRequired
	case f.kind == "authentication_failed", f.kind == "oauth_org_not_allowed", f.status == 401:
		return mission.AuthenticationRequired
	case f.kind == "rate_limit", f.status == 429:
		return mission.RateLimited
	case f.status >= 400 && f.status < 500, f.kind == "invalid_request":
		return mission.Unknown
	}
	return mission.LocalExecutionFailure
}
