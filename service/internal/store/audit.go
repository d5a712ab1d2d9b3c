package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Kinds of audit entries.
const (
	AuditApproval = "approval" // a question was put to a person
	AuditAnswer   = "answer"   // somebody or a rule answered it
	AuditRule     = "rule"     // a standing rule was made, used up or removed
	AuditRefusal  = "refusal"  // a caller was refused
	AuditEffect   = "effect"   // an effect outside was begun or ended
	AuditMission  = "mission"  // a mission was started, ended or changed by a person
	AuditService  = "service"  // the service itself: generations, settings, pairing
)

// AuditEntry is one link of the audit chain. The caller fills Kind and what it
// knows of Actor, Mission, Approval, Text and Data; the store sets the rest.
type AuditEntry struct {
	Seq      uint64          `json:"seq"`  // from 1, without gaps
	Time     time.Time       `json:"time"` // UTC; the store's clock when zero
	Kind     string          `json:"kind"` // one of the Audit constants
	Actor    string          `json:"actor,omitempty"`
	Mission  string          `json:"mission,omitempty"`
	Approval string          `json:"approval,omitempty"`
	Text     string          `json:"text,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Prev     string          `json:"prev"` // Hash of the entry before; empty for the first
	Hash     string          `json:"hash"` // lower-case hex
}

// AuditReport is what VerifyAudit found.
type AuditReport struct {
	Entries  uint64 // entries that were read and hold
	Head     string // hash of the last good entry; export it to anchor the chain elsewhere
	BrokenAt uint64 // sequence of the first entry that does not hold; 0 when all do
	Detail   string // what is wrong there
}

// auditHead is kept apart from the entries, so that cutting off the newest ones
// shows too.
type auditHead struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

func validKind(kind string) bool {
	switch kind {
	case AuditApproval, AuditAnswer, AuditRule, AuditRefusal, AuditEffect, AuditMission, AuditService:
		return true
	}
	return false
}

// hash is SHA-256 over the previous hash and every field, each as its length (8
// bytes, big endian) and its bytes: no two different entries read the same.
func (e AuditEntry) hash() string {
	h := sha256.New()
	for _, field := range []string{
		e.Prev, fmt.Sprint(e.Seq), e.Time.UTC().Format(time.RFC3339Nano),
		e.Kind, e.Actor, e.Mission, e.Approval, e.Text, string(e.Data),
	} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(field)))
		h.Write(n[:])
		h.Write([]byte(field))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Audit appends e to the audit chain within this transaction. It refuses an
// unknown kind and Data that is no JSON. Entries are never changed or removed.
func (tx *Tx) Audit(e AuditEntry) error {
	if !validKind(e.Kind) {
		return fmt.Errorf("store: audit: unknown kind %q", e.Kind)
	}
	head, err := readHead(tx)
	if err != nil {
		return err
	}
	if e.Time.IsZero() {
		e.Time = tx.now()
	}
	e.Seq, e.Prev = head.Seq+1, head.Hash
	// What is hashed must be what a reader of the record gets back: no monotonic
	// clock or zone, valid text, compact JSON.
	e.Time = e.Time.UTC().Round(0)
	for _, s := range []*string{&e.Actor, &e.Mission, &e.Approval, &e.Text} {
		*s = strings.ToValidUTF8(*s, "\uFFFD")
	}
	if len(e.Data) > 0 {
		var buf bytes.Buffer
		if err := json.Compact(&buf, e.Data); err != nil {
			return fmt.Errorf("store: audit: data: %w", err)
		}
		e.Data = bytes.ToValidUTF8(buf.Bytes(), []byte("\uFFFD"))
	}
	e.Hash = e.hash()
	raw, err := encode(e)
	if err != nil {
		return fmt.Errorf("store: audit: %w", err)
	}
	rawHead, err := encode(auditHead{Seq: e.Seq, Hash: e.Hash})
	if err != nil {
		return fmt.Errorf("store: audit: %w", err)
	}
	if err := tx.put(bucketAudit, auditKey(e.Seq), raw); err != nil {
		return err
	}
	return tx.put(bucketMeta, []byte(keyAuditHead), rawHead)
}

// encode is json.Marshal without the escaping of <, > and &, which would change
// raw data.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

func auditKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

func readHead(tx *Tx) (auditHead, error) {
	head, _, err := GetJSON[auditHead](tx, bucketMeta, keyAuditHead)
	return head, err
}

// Audit returns up to limit entries from sequence from on (0 and 1 are both the
// first).
func (db *DB) Audit(from uint64, limit int) ([]AuditEntry, error) {
	var entries []AuditEntry
	err := db.View(func(tx *Tx) error {
		return tx.Scan(bucketAudit, auditKey(from), func(k, v []byte) (bool, error) {
			if len(entries) >= limit {
				return false, nil
			}
			var e AuditEntry
			if err := json.Unmarshal(v, &e); err != nil {
				return false, fmt.Errorf("store: audit entry %x: %w", k, err)
			}
			entries = append(entries, e)
			return true, nil
		})
	})
	return entries, err
}

// AuditPage is a part of the chain, its entries as they are stored.
type AuditPage struct {
	Entries []json.RawMessage
	Last    uint64 // number of the last entry, or the one that the page was to follow
	More    bool   // there are later entries
}

// AuditPage reads the entries that follow number after: up to limit of them and
// up to size bytes, but at least one where there is one. It looks where entries
// lie, not at what they say of themselves, so pages neither repeat nor leave out
// what somebody edited. It returns a *DamagedError at an entry that is no JSON.
func (db *DB) AuditPage(after uint64, limit, size int) (AuditPage, error) {
	page := AuditPage{Entries: []json.RawMessage{}, Last: after}
	err := db.View(func(tx *Tx) error {
		return tx.Scan(bucketAudit, auditKey(after), func(k, v []byte) (bool, error) {
			if bytes.Equal(k, auditKey(after)) {
				return true, nil
			}
			n := len(page.Entries)
			if page.More = n == limit || n > 0 && len(v) > size; page.More {
				return false, nil
			}
			if len(k) != 8 || !json.Valid(v) || !utf8.Valid(v) {
				return false, damaged(db.path, fmt.Sprintf("the entry after number %d can't be read", page.Last))
			}
			page.Entries, page.Last = append(page.Entries, bytes.Clone(v)), binary.BigEndian.Uint64(k)
			size -= len(v)
			return true, nil
		})
	})
	return page, err
}

// auditStep is how many entries one read transaction verifies, so that a long
// chain does not hold up writers.
const auditStep = 1000

var errChainEnd = errors.New("end of chain")

// VerifyAudit reads the whole chain and reports the first entry that was
// changed, removed or put in. A broken chain is a report, not an error. Code
// that runs as the same user could rewrite the whole chain: only a Head that is
// kept elsewhere shows that.
func (db *DB) VerifyAudit(ctx context.Context) (AuditReport, error) {
	return verifyAudit(ctx, db.View)
}

func verifyAudit(ctx context.Context, view func(func(*Tx) error) error) (AuditReport, error) {
	var report AuditReport
	for {
		if err := ctx.Err(); err != nil {
			return report, err
		}
		err := view(func(tx *Tx) error { return verifyStep(tx, &report) })
		if errors.Is(err, errChainEnd) {
			return report, nil
		}
		if err != nil {
			return report, fmt.Errorf("store: verify audit: %w", err)
		}
	}
}

// verifyStep verifies the entries after those in the report, and returns
// errChainEnd when there is nothing more to read.
func verifyStep(tx *Tx, report *AuditReport) error {
	broken := func(detail string) error {
		report.BrokenAt, report.Detail = report.Entries+1, detail
		return errChainEnd
	}
	step := 0
	err := tx.Scan(bucketAudit, auditKey(report.Entries+1), func(k, v []byte) (bool, error) {
		if step == auditStep {
			return false, nil
		}
		step++
		var e AuditEntry
		switch {
		case !bytes.Equal(k, auditKey(report.Entries+1)):
			return false, broken(fmt.Sprintf("entry %d is missing", report.Entries+1))
		case json.Unmarshal(v, &e) != nil:
			return false, broken("the entry can't be read")
		case e.Seq != report.Entries+1:
			return false, broken(fmt.Sprintf("the entry says that it is number %d", e.Seq))
		case e.Prev != report.Head:
			return false, broken("the entry does not follow the one before")
		case e.Hash != e.hash():
			return false, broken("the entry's hash does not fit its content")
		}
		report.Entries, report.Head = e.Seq, e.Hash
		return true, nil
	})
	if err != nil || step == auditStep {
		return err
	}
	head, err := readHead(tx)
	if err != nil || head.Seq != report.Entries || head.Hash != report.Head {
		return broken(fmt.Sprintf("the chain ends at %d, its recorded head is %d", report.Entries, head.Seq))
	}
	return errChainEnd
}
