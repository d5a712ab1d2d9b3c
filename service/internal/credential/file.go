package credential

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"

	"filippo.io/age"

	"github.com/reevehq/reeve/service/internal/private"
)

// maxFile bounds the encrypted file when it is read, in bytes.
const maxFile = 2 << 20

// opened is the encrypted file while it is open. Neither the passphrase nor the
// secrets are anywhere but in memory.
type opened struct {
	passphrase string
	secrets    map[string]string
}

// Unlock opens the encrypted file, until this service ends; journal is called
// once it is known that the passphrase opens it. It fails with ErrPassphrase,
// ErrNoFile, the error of journal, or because the file can't be read.
func (b *Broker) Unlock(passphrase string, journal func() error) error {
	b.keeping.Lock()
	defer b.keeping.Unlock()
	o, err := b.open(passphrase)
	if err == nil {
		err = journal()
	}
	if err == nil {
		b.change(func() { b.opened = o })
	}
	return err
}

// open reads the file, unless it is open, and proves the passphrase. keeping is
// held.
func (b *Broker) open(passphrase string) (*opened, error) {
	if len(passphrase) == 0 || len(passphrase) > maxPassphrase {
		return nil, ErrPassphrase
	}
	b.mu.Lock()
	o := b.opened
	b.mu.Unlock()
	if o != nil {
		if subtle.ConstantTimeCompare([]byte(o.passphrase), []byte(passphrase)) != 1 {
			return nil, ErrPassphrase
		}
		return o, nil
	}
	data, err := private.ReadFile(b.File, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoFile
	}
	if err != nil {
		return nil, err
	}
	secrets, err := decrypt(data, passphrase)
	if err != nil {
		return nil, err
	}
	return &opened{passphrase, secrets}, nil
}

// openOrNew is the open file, or an empty one that is on no disk yet.
func (b *Broker) openOrNew(passphrase string) (*opened, error) {
	o, err := b.open(passphrase)
	if errors.Is(err, ErrNoFile) {
		if len(passphrase) < minPassphrase {
			return nil, ErrShort
		}
		return &opened{passphrase, map[string]string{}}, nil
	}
	return o, err
}

// rewrite changes a copy of what the file holds and replaces the file.
func (b *Broker) rewrite(o *opened, change func(map[string]string)) error {
	secrets := maps.Clone(o.secrets)
	change(secrets)
	data, err := encrypt(secrets, o.passphrase, b.work)
	if err != nil {
		return err
	}
	if err := private.WriteFile(b.File, data); err != nil {
		return err
	}
	b.change(func() { b.opened = &opened{o.passphrase, secrets} })
	return nil
}

func encrypt(secrets map[string]string, passphrase string, work int) ([]byte, error) {
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, err
	}
	to.SetWorkFactor(work)
	plain, err := json.Marshal(secrets)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

func decrypt(data []byte, passphrase string) (map[string]string, error) {
	id, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, ErrPassphrase
	}
	id.SetMaxWorkFactor(20)
	damaged := &Problem{"The encrypted file of credentials is damaged.", "Put it back from a backup, or remove it and store the secrets anew."}
	r, err := age.Decrypt(bytes.NewReader(data), id)
	var wrong *age.NoIdentityMatchError
	switch {
	case errors.As(err, &wrong):
		return nil, ErrPassphrase
	case err != nil:
		return nil, damaged
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxFile))
	var secrets map[string]string
	if err != nil || json.Unmarshal(plain, &secrets) != nil || secrets == nil {
		return nil, damaged
	}
	return secrets, nil
}
