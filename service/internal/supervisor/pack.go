package supervisor

import (
	"encoding/json"
	"fmt"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/store"
)

// packSubject turns a subject into what the queue keeps and clients get: its
// JSON, or a reference to a blob that holds it when it is long. The digest
// covers the subject itself, so a client that read the blob can check it.
func packSubject(sub approval.Subject, blobs *store.Blobs) ([]byte, error) {
	raw, err := json.Marshal(sub)
	if err != nil || len(raw) <= wire.BlobThreshold {
		return raw, err
	}
	digest, err := blobs.Put(raw)
	if err != nil {
		return nil, fmt.Errorf("keep the subject of an approval: %w", err)
	}
	return json.Marshal(wire.BlobRef{Blob: digest, Bytes: int64(len(raw))})
}
