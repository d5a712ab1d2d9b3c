package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/reevehq/reeve/service/internal/private"
)

// Blobs is a directory of private files that are named by the SHA-256 of their
// content, for data too large for the journal. Its methods may be called from
// any goroutine and process.
type Blobs struct {
	dir   string
	named atomic.Bool // the directory's own name is durable
}

// OpenBlobs returns the blobs in dir, which appears with the first Put.
func OpenBlobs(dir string) *Blobs { return &Blobs{dir: dir} }

// Put keeps data and returns its digest (64 lower-case hex digits) once it is
// durable. Data that is there already is not written again.
func (b *Blobs) Put(data []byte) (digest string, err error) {
	sum := sha256.Sum256(data)
	digest = hex.EncodeToString(sum[:])
	path := filepath.Join(b.dir, digest)
	// Only a whole file gets the name, so another size is damage, and written anew.
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(data)) {
		// Whoever wrote it may not have come to this yet.
		if err := errors.Join(private.SyncDir(b.dir), b.name()); err != nil {
			return "", fmt.Errorf("store: put blob: %w", err)
		}
		return digest, nil
	}
	if err := private.EnsureDir(b.dir); err != nil {
		return "", fmt.Errorf("store: put blob: %w", err)
	}
	if err := errors.Join(private.WriteFile(path, data), b.name()); err != nil {
		return "", fmt.Errorf("store: put blob: %w", err)
	}
	return digest, nil
}

// name makes the directory's own name durable, once: who made it may not have come
// to that yet.
func (b *Blobs) name() error {
	if b.named.Load() {
		return nil
	}
	err := private.SyncDir(filepath.Dir(b.dir))
	b.named.Store(err == nil)
	return err
}

// ReadAt returns up to limit bytes from byte off on, and the blob's whole size.
// From the end on it returns no bytes and no error. An unknown digest gives an
// error that wraps os.ErrNotExist. The digest is verified when the whole blob
// was asked for.
func (b *Blobs) ReadAt(digest string, off int64, limit int) (data []byte, total int64, err error) {
	if !validDigest(digest) {
		return nil, 0, fmt.Errorf("store: read blob %q: a digest is 64 lower-case hex digits", digest)
	}
	if off < 0 || limit < 0 {
		return nil, 0, fmt.Errorf("store: read blob %s: offset %d and limit %d must not be negative", digest, off, limit)
	}
	f, err := os.Open(filepath.Join(b.dir, digest))
	if err != nil {
		return nil, 0, fmt.Errorf("store: read blob: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("store: read blob: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("store: read blob %s: it is no regular file", digest)
	}
	total = info.Size()
	data = make([]byte, max(0, min(int64(limit), total-off)))
	n, err := f.ReadAt(data, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("store: read blob %s: %w", digest, err)
	}
	data = data[:n]
	if int64(n) == total {
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != digest {
			return nil, 0, damagedBlob(f.Name())
		}
	}
	return data, total, nil
}

// Check reads every blob and hands a *DamagedError to report for each whose
// content is not what its name says. It returns how many are sound, and changes
// nothing.
func (b *Blobs) Check(ctx context.Context, report func(error)) (sound int, err error) {
	dir, err := os.Open(b.dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("store: check the blobs: %w", err)
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1000)
		for _, name := range names {
			if ctx.Err() != nil {
				return sound, ctx.Err()
			}
			if !validDigest(name) {
				continue // being written
			}
			ok, err := whole(filepath.Join(b.dir, name), name)
			switch {
			case err != nil:
				report(fmt.Errorf("store: check the blob: %w", err))
			case !ok:
				report(damagedBlob(filepath.Join(b.dir, name)))
			default:
				sound++
			}
		}
		if errors.Is(err, io.EOF) {
			return sound, nil
		} else if err != nil {
			return sound, fmt.Errorf("store: check the blobs: %w", err)
		}
	}
}

// whole says whether a file has that digest.
func whole(path, digest string) (bool, error) {
	f, err := private.Open(path, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return false, err
	}
	return hex.EncodeToString(h.Sum(nil)) == digest, nil
}

func damagedBlob(path string) error {
	return &DamagedError{Path: path, Detail: "its content does not have the digest that it is named by", Mend: "Put it back from a backup, or remove it"}
}

func validDigest(digest string) bool {
	if len(digest) != 2*sha256.Size {
		return false
	}
	for _, c := range digest {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
