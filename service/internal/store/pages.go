package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// The layout of a bbolt file, as far as following its pages safely needs it.
// Numbers are in the machine's byte order.
const (
	pageHeader   = 16 // id u64, flags u16, count u16, overflow u32
	elementSize  = 16 // leaf: flags, pos, ksize, vsize u32; branch: pos, ksize u32, page u64
	bucketHeader = 16 // root page u64, sequence u64
	metaSize     = 64 // up to and with the checksum

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10
	leafBucket   = 0x01

	boltMagic   = 0xED0CDAED
	boltVersion = 2
	noFreelist  = ^uint64(0)
	maxDepth    = 64
)

var native = binary.NativeEndian

type boltMeta struct {
	pageSize, root, freelist, pages, txid uint64
}

func parseMeta(page []byte) (m boltMeta, ok bool) {
	b := page[pageHeader:]
	h := fnv.New64a()
	h.Write(b[:56])
	if native.Uint32(b) != boltMagic || native.Uint32(b[4:]) != boltVersion || native.Uint64(b[56:]) != h.Sum64() {
		return m, false
	}
	return boltMeta{
		pageSize: uint64(native.Uint32(b[8:])), root: native.Uint64(b[16:]),
		freelist: native.Uint64(b[32:]), pages: native.Uint64(b[40:]), txid: native.Uint64(b[48:]),
	}, true
}

// readMeta returns the newest valid root of the file. The second one lies a page
// size further, which is unknown when the first is bad.
func readMeta(f io.ReaderAt, size int64) (meta boltMeta, err error) {
	found := false
	buf := make([]byte, pageHeader+metaSize)
	try := func(off int64) bool {
		if n, _ := f.ReadAt(buf, off); n < len(buf) {
			return false
		}
		m, ok := parseMeta(buf)
		if ok && (!found || m.txid > meta.txid) {
			meta, found = m, true
		}
		return ok
	}
	if try(0) {
		try(int64(meta.pageSize))
	} else {
		for off := int64(1024); off <= 1<<24 && !found; off *= 2 {
			try(off)
		}
	}
	switch {
	case !found:
		return meta, errors.New("neither of its two root pages is valid")
	case meta.pageSize < 1024 || meta.pageSize > 1<<24 || meta.pageSize&(meta.pageSize-1) != 0:
		return meta, fmt.Errorf("its page size is %d", meta.pageSize)
	case meta.pages < 2 || meta.pages > uint64(size)/meta.pageSize:
		return meta, fmt.Errorf("it is cut off: %d bytes hold fewer than its %d pages of %d", size, meta.pages, meta.pageSize)
	}
	return meta, nil
}

// walkPages follows every page from the root and verifies that all lie within
// the file, are what they say they are, are used once, and hold their elements.
// The file must not change meanwhile.
func walkPages(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	meta, err := readMeta(f, info.Size())
	if err != nil {
		return err
	}
	w := &walker{f: f, meta: meta, used: make([]bool, meta.pages)}
	w.used[0], w.used[1] = true, true
	if meta.freelist != noFreelist {
		page, err := w.read(meta.freelist, flagFreelist, 0)
		if err != nil {
			return err
		}
		n, body := uint64(native.Uint16(page[10:])), page[pageHeader:]
		if n == 0xFFFF && len(body) >= 8 {
			n, body = native.Uint64(body), body[8:]
		}
		if n > uint64(len(body))/8 {
			return fmt.Errorf("page %d: a list of %d free pages does not fit", meta.freelist, n)
		}
		for i := range n {
			if id := native.Uint64(body[i*8:]); id < 2 || id >= meta.pages {
				return fmt.Errorf("page %d: free page %d is out of range", meta.freelist, id)
			}
		}
	}
	return w.tree(meta.root, 0)
}

type walker struct {
	f    io.ReaderAt
	meta boltMeta
	used []bool
	bufs [][]byte // one for each depth, since a branch is read on after its children
}

// read returns the page with its overflow, after it has checked its header. The
// kinds are the flags that it may have. The page is valid until the next read
// at the same depth.
func (w *walker) read(id uint64, kinds uint16, depth int) ([]byte, error) {
	if id < 2 || id >= w.meta.pages {
		return nil, fmt.Errorf("page %d is out of range", id)
	}
	size := w.meta.pageSize
	for len(w.bufs) <= depth {
		w.bufs = append(w.bufs, make([]byte, size))
	}
	page := w.bufs[depth][:size]
	off := int64(id * size)
	if _, err := w.f.ReadAt(page, off); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	flags, overflow := native.Uint16(page[8:]), uint64(native.Uint32(page[12:]))
	if got := native.Uint64(page); got != id {
		return nil, fmt.Errorf("page %d says that it is page %d", id, got)
	}
	if flags&kinds == 0 || flags&(flags-1) != 0 {
		return nil, fmt.Errorf("page %d has the wrong kind %#x", id, flags)
	}
	if overflow >= w.meta.pages-id {
		return nil, fmt.Errorf("page %d with %d more is out of range", id, overflow)
	}
	for i := id; i <= id+overflow; i++ {
		if w.used[i] {
			return nil, fmt.Errorf("page %d is used twice", i)
		}
		w.used[i] = true
	}
	if overflow == 0 {
		return page, nil
	}
	if whole := int((overflow + 1) * size); cap(page) < whole {
		w.bufs[depth] = make([]byte, whole)
	}
	page = w.bufs[depth][:(overflow+1)*size]
	if _, err := w.f.ReadAt(page, off); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return page, nil
}

func (w *walker) tree(id uint64, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d lies too deep", id)
	}
	page, err := w.read(id, flagBranch|flagLeaf, depth)
	if err != nil {
		return err
	}
	return w.elements(page, id, depth)
}

// elements checks a branch or leaf page, or a small bucket kept within a value.
func (w *walker) elements(page []byte, id uint64, depth int) error {
	branch := native.Uint16(page[8:]) == flagBranch
	count := int(native.Uint16(page[10:]))
	if pageHeader+count*elementSize > len(page) {
		return fmt.Errorf("page %d: %d elements do not fit", id, count)
	}
	if branch && count == 0 {
		return fmt.Errorf("page %d: a branch without elements", id)
	}
	for i := range count {
		at := pageHeader + i*elementSize
		e := page[at : at+elementSize]
		if branch {
			if end := uint64(at) + uint64(native.Uint32(e)) + uint64(native.Uint32(e[4:])); end > uint64(len(page)) {
				return fmt.Errorf("page %d: element %d does not fit", id, i)
			}
			if err := w.tree(native.Uint64(e[8:]), depth+1); err != nil {
				return err
			}
			continue
		}
		start := uint64(at) + uint64(native.Uint32(e[4:])) + uint64(native.Uint32(e[8:]))
		end := start + uint64(native.Uint32(e[12:]))
		if end > uint64(len(page)) || native.Uint32(e[8:]) == 0 {
			return fmt.Errorf("page %d: element %d does not fit", id, i)
		}
		if native.Uint32(e)&leafBucket == 0 {
			continue
		}
		if err := w.bucket(page[start:end], id, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) bucket(value []byte, id uint64, depth int) error {
	if len(value) < bucketHeader {
		return fmt.Errorf("page %d: a bucket is too short", id)
	}
	if root := native.Uint64(value); root != 0 {
		return w.tree(root, depth+1)
	}
	inline := value[bucketHeader:]
	if len(inline) < pageHeader || native.Uint16(inline[8:]) != flagLeaf || depth > maxDepth {
		return fmt.Errorf("page %d: a bucket within it is no leaf", id)
	}
	return w.elements(inline, id, depth+1)
}
