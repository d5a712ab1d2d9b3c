package supervisor

import (
	"encoding/json"
	"fmt"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/store"
)

// packedSubject is an approval.Subject whose long values are references to
// blobs, exactly as the digest covers them.
type packedSubject struct {
	approval.Subject
	Command any `json:"command,omitempty"`
	Diff    any `json:"diff,omitempty"`
	Input   any `json:"input,omitempty"`
}

func packSubject(sub approval.Subject, blobs *store.Blobs) ([]byte, error) {
	p := packedSubject{Subject: sub}
	put := func(raw []byte, value any) (any, error) {
		if len(raw) <= wire.BlobThreshold {
			return value, nil
		}
		digest, err := blobs.Put(raw)
		if err != nil {
			return nil, fmt.Errorf("keep a long value of an approval: %w", err)
		}
		return wire.BlobRef{Blob: digest, Bytes: int64(len(raw))}, nil
	}
	var err error
	if sub.Command != "" {
		if p.Command, err = put([]byte(sub.Command), sub.Command); err != nil {
			return nil, err
		}
	}
	if sub.Diff != "" {
		if p.Diff, err = put([]byte(sub.Diff), sub.Diff); err != nil {
			return nil, err
		}
	}
	if len(sub.Input) > 0 {
		if p.Input, err = put(sub.Input, sub.Input); err != nil {
			return nil, err
		}
	}
	return json.Marshal(p)
}
