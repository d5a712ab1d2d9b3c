package wire

import (
	"encoding/json"
	"time"
)

// Methods of the effect journal, for persons.
const (
	MethodEffectList   = "effect.list"
	MethodEffectSettle = "effect.settle"
)

// TopicEffects can be watched: the snapshot holds every Effect that is not
// settled and the newest 200 others, an EvEffect event one that changed.
const (
	TopicEffects = "effects"
	EvEffect     = "effect.changed"
)

// States of an Effect, beside those of a PrepareResult.
const (
	EffectExecuting = "executing" // prepared, and the worker is doing it
	EffectFailed    = "failed"    // it did not happen, as its worker said
	EffectSettled   = "settled"   // a person said what became of an uncertain one
)

// Outcomes that a person may settle an uncertain effect with.
const (
	EffectHappened = "happened"
	EffectDidNot   = "did_not"
	EffectLeft     = "left" // nobody knows, and it is left at that
)

// Effect is something a worker did, or meant to do, beyond its own process.
type Effect struct {
	ID        string          `json:"id"`
	Mission   string          `json:"mission_id"`
	Attempt   string          `json:"attempt"`
	Turn      string          `json:"turn"`
	TurnNo    int             `json:"turn_number,omitempty"`
	Room      string          `json:"room_id"`
	Tool      string          `json:"tool"`
	Input     json.RawMessage `json:"input"` // cut to BlobThreshold; Digest is of the whole
	Cut       bool            `json:"input_cut,omitempty"`
	Digest    string          `json:"input_digest"`
	Mutation  bool            `json:"mutation"`
	Action    string          `json:"action"`
	State     string          `json:"state"`
	CreatedAt time.Time       `json:"created_at"`
	EndedAt   *time.Time      `json:"ended_at,omitempty"`
	// Known is a sentence about what is known of it.
	Known  string          `json:"known"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
	// Settled and By are what a person said, and who.
	Settled  string `json:"settled,omitempty"`
	By       string `json:"settled_by,omitempty"`
	Revision uint64 `json:"revision"`
}

// EffectListParams selects effects; All includes those that need nobody.
type EffectListParams struct {
	Mission string `json:"mission_id,omitempty"`
	All     bool   `json:"all,omitempty"`
}

// EffectListResult is the journal, newest first, at most 500.
type EffectListResult struct {
	Effects []Effect `json:"effects"`
}

// EffectSettleParams says what became of an uncertain effect. Revision repeats
// the effect's, so that nobody settles what they did not see.
type EffectSettleParams struct {
	RequestKey string `json:"request_key,omitempty"`
	ID         string `json:"id"`
	Revision   uint64 `json:"revision"`
	Outcome    string `json:"outcome"`
}

// EffectResult carries one effect.
type EffectResult struct {
	Effect Effect `json:"effect"`
}
