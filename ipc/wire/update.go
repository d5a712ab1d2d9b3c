package wire

import "time"

// The methods of an update of the service: stop, start, adopt. The connection
// that prepares it owns it, and it alone commits or cancels it.
const (
	MethodServicePrepareUpdate = "service.prepare_update"
	MethodServiceCommitUpdate  = "service.commit_update"
	MethodServiceCancelUpdate  = "service.cancel_update"
)

// PrepareUpdateParams begins an update. OldestGuard is the oldest guard
// protocol that the next service speaks; 0 means that it speaks what this one
// does. Workers of older guards are ended, after their turn where it ends in
// time.
type PrepareUpdateParams struct {
	OldestGuard int `json:"oldest_guard_protocol,omitempty"`
}

// PrepareUpdateResult says that the service can be ended. Until is when the
// update is undone unless it was committed.
type PrepareUpdateResult struct {
	State       string    `json:"state"` // prepared
	GoOn        int       `json:"workers_going_on"`
	Finished    int       `json:"turns_finished"`
	Interrupted int       `json:"turns_interrupted"`
	Idle        int       `json:"idle_workers_ended"`
	Left        []string  `json:"left,omitempty"`
	Until       time.Time `json:"until"`
}

// UpdateResult is the end of an update: committed or cancelled. Resumed says of
// each worker that was ended for a cancelled update what became of its mission.
type UpdateResult struct {
	State   string   `json:"state"`
	Resumed []string `json:"resumed,omitempty"`
}
