package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Code is a stable error code. Codes are append-only.
type Code string

// The error codes.
const (
	CodeUnsupportedVersion  Code = "unsupported_version"
	CodeUnsupportedMethod   Code = "unsupported_method"
	CodeInvalidParams       Code = "invalid_params"
	CodeNotFound            Code = "not_found"
	CodeAmbiguous           Code = "ambiguous"
	CodeStaleGeneration     Code = "stale_generation"
	CodeApprovalRequired    Code = "approval_required"
	CodeApprovalMismatch    Code = "approval_mismatch"
	CodeApprovalStale       Code = "approval_stale"
	CodeAlreadyAnswered     Code = "already_answered"
	CodeForbiddenForWorkers Code = "forbidden_for_workers"
	CodeConflict            Code = "conflict"
	CodeAlreadyRunning      Code = "already_running"
	CodeDeadlinePassed      Code = "deadline_passed"
	CodeLimitExceeded       Code = "limit_exceeded"
	CodeRateLimited         Code = "rate_limited"
	CodeUnavailable         Code = "unavailable"
	CodeShuttingDown        Code = "shutting_down"
	CodeUpdateInProgress    Code = "update_in_progress"
	CodeCredentialDeferred  Code = "credential_deferred"
	CodeCredentialStale     Code = "credential_stale"
	CodeInternal            Code = "internal"
)

// Error is a refusal that crosses the wire: a sentence that says what happened
// and what to do, a stable code, and optional details.
type Error struct {
	Code    Code
	Message string
	Details any
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// With returns the error with details for programs.
func (e *Error) With(details any) *Error {
	c := *e
	c.Details = details
	return &c
}

// CodeOf returns the code of err, CodeInternal when it carries none, and ""
// for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// Fail builds the response that refuses a request with err. Errors that are no
// *Error must have been turned into one by the caller, so that nothing internal
// leaks.
func Fail(version int, id string, err *Error) Response {
	r := Response{Version: version, ID: id, Error: err.Message, Code: err.Code}
	if err.Details != nil {
		if b, e := json.Marshal(err.Details); e == nil {
			r.Details = b
		}
	}
	return r
}
