// Package wire holds every message that crosses Reeve's local sockets: the
// envelope, the error codes, the methods with their parameters and results,
// and the typed session events. It imports nothing of Reeve, so that a client
// can be written against it alone. Field names and string values here are a
// contract: add, never rename.
package wire

import "encoding/json"

// Protocol versions that this build speaks.
const (
	MinVersion = 1
	MaxVersion = 2
)

// Limits of the envelope, in bytes unless said otherwise.
const (
	// MaxLine is the longest line, newline excluded, in both directions.
	MaxLine = 1 << 20
	// BlobThreshold is the size above which a value travels as a BlobRef.
	BlobThreshold = 64 << 10
	// BlobPiece is the most that one blob.read returns.
	BlobPiece = 256 << 10
	// MaxID is the longest request id, in bytes.
	MaxID = 128
)

// Request is a call. Version is 1 for daemon.negotiate and the negotiated one
// for everything else.
type Request struct {
	Version int             `json:"version"`
	ID      string          `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// Response answers the request with the same ID. Error is a sentence for a
// person, Code is stable for programs.
type Response struct {
	Version int             `json:"version"`
	ID      string          `json:"id"`
	OK      bool            `json:"ok"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   string          `json:"error,omitempty"`
	Code    Code            `json:"code,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

// Event is something the server says unasked. Topic names the watched topic it
// belongs to (empty for connection-wide events); Session repeats the id of a
// session topic.
type Event struct {
	Version int             `json:"version"`
	Event   string          `json:"event"`
	Topic   string          `json:"topic,omitempty"`
	Session string          `json:"session,omitempty"`
	Cursor  *Cursor         `json:"cursor,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Cursor is a position in a topic. Session topics use Log (the id of the
// session's own log), all others Generation (of the service).
type Cursor struct {
	Generation uint64 `json:"generation,omitempty"`
	Log        string `json:"log,omitempty"`
	Sequence   uint64 `json:"sequence"`
}

// BlobRef stands for a value over BlobThreshold, read with blob.read.
type BlobRef struct {
	Blob  string `json:"blob"`
	Bytes int64  `json:"bytes"`
}

// Names of events.
const (
	EvSnapshotBegin  = "snapshot.begin"
	EvSnapshotChunk  = "snapshot.chunk"
	EvSnapshotEnd    = "snapshot.end"
	EvSnapshotFailed = "snapshot.failed"
	EvHeartbeat      = "heartbeat"
	EvServiceClosing = "service.closing"
	EvService        = "service.changed"
	EvMission        = "mission.changed"
	EvApproval       = "approval.changed"
	EvRefusal        = "worker.refused"
	EvSession        = "session.event"
)

// Topics that can be watched; a session's is TopicSession plus its id.
const (
	TopicService   = "service"
	TopicMissions  = "missions"
	TopicApprovals = "approvals"
	TopicSession   = "session:"
)

// Purposes of a snapshot.
const (
	PurposeAttach = "attach"
	PurposeResync = "resync"
)

// SnapshotBegin announces Count items of a topic, captured at the event's
// cursor; SnapshotChunk carries a part of them, SnapshotEnd closes it. A long
// transcript is streamed while it is read: then Count is -1, and only the end
// tells it. With After the items continue what the client has up to that
// cursor; without, they replace it.
type SnapshotBegin struct {
	Purpose string  `json:"purpose"`
	Count   int     `json:"count"`
	After   *Cursor `json:"after,omitempty"`
}

// SnapshotChunk is the Index-th part (from 0) of a snapshot.
type SnapshotChunk struct {
	Index int               `json:"index"`
	Items []json.RawMessage `json:"items"`
}

// SnapshotEnd closes a snapshot of Count items. LeftOut more are longer than a
// line and can't be sent.
type SnapshotEnd struct {
	Count   int `json:"count"`
	LeftOut int `json:"left_out,omitempty"`
}

// SnapshotFailed says why a snapshot could not be completed.
type SnapshotFailed struct {
	Reason string `json:"reason"`
}

// ServiceClosing tells clients why the connection is about to end.
type ServiceClosing struct {
	Reason string `json:"reason"` // shutdown | update | fenced
}

// Reasons of ServiceClosing.
const (
	ClosingShutdown = "shutdown"
	ClosingUpdate   = "update"
	ClosingFenced   = "fenced"
)
