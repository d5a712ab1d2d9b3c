package contextfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tracked returns which of the sorted names git's index has at the root of the
// checkout, or "". A split index has its entries in a second file.
func (g repository) tracked(names []string) (string, error) {
	hash := 20
	if raw, err := os.ReadFile(filepath.Join(g.common, "config")); err == nil {
		if raw = bytes.ToLower(raw); bytes.Contains(raw, []byte("objectformat")) && bytes.Contains(raw, []byte("sha256")) {
			hash = 32
		}
	}
	files, err := os.ReadDir(g.own)
	if err != nil {
		return "", err
	}
	for _, e := range files {
		if !e.Type().IsRegular() || e.Name() != "index" && !strings.HasPrefix(e.Name(), "sharedindex.") {
			continue // no index is an empty one
		}
		file := filepath.Join(g.own, e.Name())
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		name, err := first(bufio.NewReaderSize(f, 64<<10), hash, names)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", fmt.Errorf("read %s: %w", file, err)
		}
		if name != "" {
			return name, nil
		}
	}
	return "", nil
}

// first reads an index of the versions 2 to 4 up to the last of the names, which
// are sorted as its entries are, and returns the first that it has.
func first(r *bufio.Reader, hash int, names []string) (string, error) {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", err
	}
	version := binary.BigEndian.Uint32(head[4:])
	if string(head[:4]) != "DIRC" || version < 2 || version > 4 {
		return "", errors.New("it is no index of a known version")
	}
	var name []byte
	fixed := make([]byte, 40+hash+2)
	for range binary.BigEndian.Uint32(head[8:]) {
		if _, err := io.ReadFull(r, fixed); err != nil {
			return "", err
		}
		size := len(fixed)
		if version >= 3 && fixed[40+hash]&0x40 != 0 { // more flags
			if _, err := r.Discard(2); err != nil {
				return "", err
			}
			size += 2
		}
		if version == 4 {
			drop, err := offset(r)
			if err != nil {
				return "", err
			}
			if drop > len(name) {
				return "", errors.New("it is damaged")
			}
			name = name[:len(name)-drop]
		} else {
			name = name[:0]
		}
		tail, err := r.ReadBytes(0)
		if err != nil {
			return "", err
		}
		name = append(name, tail[:len(tail)-1]...)
		if version < 4 { // entries begin at multiples of 8, after one NUL at least
			if _, err := r.Discard(7 - (size+len(name))%8); err != nil {
				return "", err
			}
		}
		if slices.Contains(names, string(name)) {
			return string(name), nil
		}
		if string(name) > names[len(names)-1] {
			return "", nil
		}
	}
	return "", nil
}

// offset reads a number as git packs it: seven bits a byte, highest first, each
// further byte adding one.
func offset(r io.ByteReader) (int, error) {
	n := 0
	for i := 0; ; i++ {
		c, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		n |= int(c & 0x7f)
		if c&0x80 == 0 {
			return n, nil
		}
		if i == 3 {
			return 0, errors.New("it is damaged")
		}
		n = (n + 1) << 7
	}
}
