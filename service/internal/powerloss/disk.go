package powerloss

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A disk is what could be read after a power loss: files and directories by
// number, as the names in directories point to them. Number 0 is the root.
type disk map[int]*node

type node struct {
	names map[string]int // of a directory; nil for a file
	data  []byte         // of a file
}

// snapshot reads the tree below dir, which counts as durable.
func snapshot(dir string) (disk, error) {
	d := disk{0: {names: map[string]int{}}}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		parent, name, err := d.parent(rel)
		if err != nil {
			return err
		}
		n := &node{}
		switch {
		case e.IsDir():
			n.names = map[string]int{}
		case e.Type().IsRegular():
			if n.data, err = os.ReadFile(path); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s is neither a file nor a directory", path)
		}
		id := len(d)
		d[id], d[parent].names[name] = n, id
		return nil
	})
	return d, err
}

// parent finds the directory that holds the last part of a relative path.
func (d disk) parent(rel string) (dir int, name string, err error) {
	parts := strings.Split(rel, string(filepath.Separator))
	for _, p := range parts[:len(parts)-1] {
		next, ok := d[dir].names[p]
		if !ok || d[next].names == nil {
			return 0, "", fmt.Errorf("%s: there is no directory %s", rel, p)
		}
		dir = next
	}
	return dir, parts[len(parts)-1], nil
}

// change applies ops to a copy that shares what they don't touch.
func (d disk) change(ops []op) disk {
	out := maps.Clone(d)
	own := map[int]bool{}
	for _, o := range ops {
		n := out[o.node]
		if !own[o.node] {
			own[o.node] = true
			if n == nil {
				n = &node{}
			}
			n = &node{names: maps.Clone(n.names), data: bytes.Clone(n.data)}
			out[o.node] = n
		}
		o.apply(n)
	}
	return out
}

// walk visits what has a name, in the order of the names.
func (d disk) walk(id int, path string, visit func(path string, id int, n *node)) {
	n := d.node(id)
	visit(path, id, n)
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		d.walk(n.names[name], filepath.Join(path, name), visit)
	}
}

// node finds a node. A file of which only the name reached the disk is empty.
func (d disk) node(id int) *node {
	if n := d[id]; n != nil {
		return n
	}
	return &node{}
}

// write makes the disk a real tree below dir, which is empty.
func (d disk) write(dir string) error {
	var errs []error
	first := map[int]string{}
	d.walk(0, "", func(path string, id int, n *node) {
		at := filepath.Join(dir, path)
		switch {
		case id == 0:
		case n.names != nil:
			errs = append(errs, os.Mkdir(at, 0o700))
		case first[id] != "":
			errs = append(errs, os.Link(first[id], at))
		default:
			first[id] = at
			errs = append(errs, os.WriteFile(at, n.data, 0o600))
		}
	})
	return errors.Join(errs...)
}

// An op is one change to a node: a write or a new size of a file, or new names
// in a directory. Ops stay pending until a sync of their node.
type op struct {
	node  int
	names map[string]int // of a directory: what each name leads to, or gone
	off   int64          // of a file: where data goes
	data  []byte
	size  int64 // of a file without data: its new size
	seq   int   // its place among all changes
	part  int   // which part of it reached the disk; 0: all
}

const gone = -1

func (o op) apply(n *node) {
	switch {
	case o.names != nil:
		for name, id := range o.names {
			if id == gone {
				delete(n.names, name)
			} else {
				n.names[name] = id
			}
		}
	case o.data != nil:
		n.resize(max(int64(len(n.data)), o.off+int64(len(o.data))))
		copy(n.data[o.off:], o.data)
	default:
		n.resize(o.size)
	}
}

func (n *node) resize(size int64) {
	if more := size - int64(len(n.data)); more > 0 {
		n.data = append(n.data, make([]byte, more)...)
	}
	n.data = n.data[:size]
}

// torn are the ways in which a write can reach the disk in part: only the size
// that it gives the file, half of it, its first sector, or all but that.
func (o op) torn() []op {
	const sector = 512
	n := len(o.data)
	if n == 0 {
		return nil
	}
	out := []op{{node: o.node, off: o.off + int64(n), data: []byte{}, seq: o.seq, part: 1}}
	for i, part := range [][2]int{{0, n / 2}, {0, min(n, sector)}, {min(n, sector), n}} {
		if from, to := part[0], part[1]; 0 < to-from && to-from < n {
			out = append(out, op{node: o.node, off: o.off + int64(from), data: o.data[from:to], seq: o.seq, part: i + 2})
		}
	}
	return out
}

// id is different for every change, and every part of it.
func (o op) id() uint64 {
	x := uint64(o.seq*8+o.part+1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
