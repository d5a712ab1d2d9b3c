package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

// Buckets of this package. Others can't write to names with this prefix.
const (
	reserved    = "store."
	bucketMeta  = "store.meta"
	bucketAudit = "store.audit"
)

const (
	keySchema     = "schema"
	keyApp        = "app_version"
	keyGeneration = "generation"
	keyAuditHead  = "audit_head"
)

// Tx is a transaction. It is valid only inside the function that got it and may
// be used by one goroutine at a time. Buckets appear with their first write;
// reading one that does not exist finds nothing.
type Tx struct {
	b          *bbolt.Tx
	now        func() time.Time
	writes     int             // changes so far, so that a failure without any costs the batch nothing
	generation uint64          // set when this transaction begins a generation
	deleted    map[string]bool // buckets that lost a key in this transaction
}

// Get returns a copy of the value, or nil when there is none. An empty value is
// returned as an empty slice that is not nil.
func (tx *Tx) Get(bucket string, key []byte) []byte {
	b := tx.b.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	v := b.Get(key)
	if v == nil {
		return nil
	}
	return append([]byte{}, v...)
}

// Put sets the value of key. The key must not be empty and not exceed 32 KiB.
func (tx *Tx) Put(bucket string, key, value []byte) error {
	if strings.HasPrefix(bucket, reserved) {
		return fmt.Errorf("store: put in %s: names that begin with %q belong to the store", bucket, reserved)
	}
	return tx.put(bucket, key, value)
}

func (tx *Tx) put(bucket string, key, value []byte) error {
	b, err := tx.create(bucket)
	if err != nil {
		return err
	}
	tx.writes++
	// bbolt keeps the value's memory until the commit, so the caller's must not
	// be able to change it.
	if err := b.Put(key, append([]byte{}, value...)); err != nil {
		return fmt.Errorf("store: put in %s: %w", bucket, err)
	}
	return nil
}

func (tx *Tx) create(bucket string) (*bbolt.Bucket, error) {
	if b := tx.b.Bucket([]byte(bucket)); b != nil {
		return b, nil
	}
	b, err := tx.b.CreateBucket([]byte(bucket))
	if err != nil {
		return nil, fmt.Errorf("store: create bucket %q: %w", bucket, err)
	}
	tx.writes++
	return b, nil
}

// Delete removes key; a missing key is no error.
func (tx *Tx) Delete(bucket string, key []byte) error {
	if strings.HasPrefix(bucket, reserved) {
		return fmt.Errorf("store: delete in %s: names that begin with %q belong to the store", bucket, reserved)
	}
	b := tx.b.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	tx.writes++
	if tx.deleted == nil {
		tx.deleted = map[string]bool{}
	}
	tx.deleted[bucket] = true
	if err := b.Delete(key); err != nil {
		return fmt.Errorf("store: delete in %s: %w", bucket, err)
	}
	return nil
}

// Next returns the bucket's next number, from 1. A number is used up only when
// the transaction commits.
func (tx *Tx) Next(bucket string) (uint64, error) {
	if strings.HasPrefix(bucket, reserved) {
		return 0, fmt.Errorf("store: next of %s: names that begin with %q belong to the store", bucket, reserved)
	}
	b, err := tx.create(bucket)
	if err != nil {
		return 0, err
	}
	tx.writes++
	n, err := b.NextSequence()
	if err != nil {
		return 0, fmt.Errorf("store: next of %s: %w", bucket, err)
	}
	return n, nil
}

// Scan calls fn for every key >= from in ascending order (nil: from the first)
// until it returns false or an error. k and v must not be changed or kept after
// fn returns. fn may change the bucket: the scan goes on after k.
func (tx *Tx) Scan(bucket string, from []byte, fn func(k, v []byte) (more bool, err error)) error {
	b := tx.b.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	c := b.Cursor()
	k, v := c.Seek(from)
	for k != nil {
		last, writes := k, tx.writes
		if tx.b.Writable() {
			last = bytes.Clone(k)
		}
		more, err := fn(k, v)
		if err != nil || !more {
			return err
		}
		if tx.writes == writes {
			k, v = c.Next()
			continue
		}
		// A change makes the cursor unreliable; find the place again.
		c = b.Cursor()
		if k, v = c.Seek(last); bytes.Equal(k, last) {
			k, v = c.Next()
		}
	}
	return nil
}

// ScanReverse is Scan in descending order over every key <= from (nil: from the
// last). Whether it sees keys that fn adds is open.
func (tx *Tx) ScanReverse(bucket string, from []byte, fn func(k, v []byte) (more bool, err error)) error {
	b := tx.b.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	if tx.deleted[bucket] {
		return scanBack(b, from, fn)
	}
	c := b.Cursor()
	k, v := seekBack(c, from)
	for k != nil {
		last, writes := k, tx.writes
		if tx.b.Writable() {
			last = bytes.Clone(k)
		}
		more, err := fn(k, v)
		if err != nil || !more {
			return err
		}
		switch {
		case tx.writes == writes:
			k, v = c.Prev()
		case tx.deleted[bucket]:
			return scanBack(b, last, func(k, v []byte) (bool, error) {
				if bytes.Equal(k, last) {
					return true, nil
				}
				return fn(k, v)
			})
		default:
			c = b.Cursor()
			if k, v = seekBack(c, last); bytes.Equal(k, last) {
				k, v = c.Prev()
			}
		}
	}
	return nil
}

// scanBack is ScanReverse for a bucket from which this transaction has deleted.
// bbolt keeps pages that lost all their keys until the commit, and its cursor
// stops or even hangs there when it goes backwards; forwards it steps over them.
func scanBack(b *bbolt.Bucket, from []byte, fn func(k, v []byte) (more bool, err error)) error {
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.First(); k != nil && (from == nil || bytes.Compare(k, from) <= 0); k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range slices.Backward(keys) {
		v := b.Get(k)
		if v == nil {
			continue // fn has deleted it meanwhile
		}
		if more, err := fn(k, v); err != nil || !more {
			return err
		}
	}
	return nil
}

// seekBack moves to the greatest key <= key, or to the last one when key is nil.
func seekBack(c *bbolt.Cursor, key []byte) (k, v []byte) {
	if key == nil {
		return c.Last()
	}
	k, v = c.Seek(key)
	if k == nil {
		return c.Last()
	}
	if bytes.Equal(k, key) {
		return k, v
	}
	return c.Prev()
}

// GetJSON reads the record under key; ok is false when there is none.
func GetJSON[T any](tx *Tx, bucket, key string) (v T, ok bool, err error) {
	raw := tx.Get(bucket, []byte(key))
	if raw == nil {
		return v, false, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, false, fmt.Errorf("store: read %s/%s: %w", bucket, key, err)
	}
	return v, true, nil
}

// PutJSON writes v as the record under key.
func PutJSON[T any](tx *Tx, bucket, key string, v T) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("store: write %s/%s: %w", bucket, key, err)
	}
	return tx.Put(bucket, []byte(key), raw)
}

// EachJSON calls fn for every record of the bucket in key order until it returns
// false or an error.
func EachJSON[T any](tx *Tx, bucket string, fn func(key string, v T) (bool, error)) error {
	return tx.Scan(bucket, nil, func(k, raw []byte) (bool, error) {
		var v T
		if err := json.Unmarshal(raw, &v); err != nil {
			return false, fmt.Errorf("store: read %s/%s: %w", bucket, k, err)
		}
		return fn(string(k), v)
	})
}

func readUint(tx *Tx, key string) uint64 {
	if v := tx.Get(bucketMeta, []byte(key)); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func writeUint(tx *Tx, key string, n uint64) error {
	return tx.put(bucketMeta, []byte(key), binary.BigEndian.AppendUint64(nil, n))
}
