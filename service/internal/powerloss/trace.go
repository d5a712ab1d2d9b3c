package powerloss

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrUnavailable says that system calls can't be recorded here, and why.
var ErrUnavailable = errors.New("system calls can't be recorded")

// Trace is what a program did to the files below a directory.
type Trace struct {
	base  disk
	steps []step
}

// A step is a change, a finished sync or an acknowledgement.
type step struct {
	change *op
	sync   int    // the node
	before int    // changes from this one on came while the sync ran, and may have missed it
	ack    string // a line on standard output
	call   string // for messages
}

// Syncs returns how many syncs of files and directories were recorded.
func (t *Trace) Syncs() (n int) {
	for _, s := range t.steps {
		if s.change == nil && s.ack == "" {
			n++
		}
	}
	return n
}

func (t *Trace) describe(step int) string {
	if step == 0 {
		return "the start"
	}
	return t.steps[step-1].call
}

// calls are the system calls that change files, or what a descriptor leads to.
// A call with a ? may not exist on every machine.
const calls = "openat,?open,?creat,close,?dup,?dup2,dup3,lseek,read,write,pwrite64,writev,pwritev,?pwritev2,ftruncate,truncate,fallocate," +
	"fsync,fdatasync,?sync_file_range,?rename,?renameat,renameat2,?link,linkat,?symlink,symlinkat,?unlink,unlinkat,?rmdir,?mkdir,mkdirat,copy_file_range,sendfile"

// Record runs cmd and records what it does to the files below dir, which holds
// files and directories only. It fails with ErrUnavailable where that can't be
// done. cmd must be one process, use absolute paths, and write to standard
// output only to acknowledge: every line that it writes there says that what
// came before is durable.
func Record(cmd *exec.Cmd, dir string) (*Trace, error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if out, err := exec.Command(strace, "-f", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: strace: %w: %s", ErrUnavailable, err, bytes.TrimSpace(out))
	}
	base, err := snapshot(dir)
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp("", "powerloss-*.strace")
	if err != nil {
		return nil, err
	}
	defer os.Remove(log.Name())
	defer log.Close()
	cmd.Args = append([]string{"strace", "-f", "-qq", "-o", log.Name(), "-xx", "-s", "16777216", "-e", "signal=none", "-e", "trace=" + calls, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = strace
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("record %s: %w: %s", cmd.Args[len(cmd.Args)-1], err, errs.Bytes())
	}
	return parse(log, dir, base)
}

// parser plays a record of system calls.
type parser struct {
	*Trace
	dir     string
	now     disk                // what a program sees, synced or not
	open    map[string]*opened  // by descriptor
	waiting map[string]*started // by thread
	changes int
}

type opened struct {
	node   int // -1 outside of the directory
	off    int64
	append bool
}

type started struct {
	text   string
	before int
}

func parse(r io.Reader, dir string, base disk) (*Trace, error) {
	p := &parser{
		Trace: &Trace{base: base}, dir: dir, now: base.change(nil),
		open: map[string]*opened{}, waiting: map[string]*started{},
	}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err != nil && line == "" {
			return p.Trace, nil
		}
		if err := p.line(strings.TrimSuffix(line, "\n")); err != nil {
			if len(line) > 200 {
				line = line[:200] + "…"
			}
			return nil, fmt.Errorf("read the record of system calls: %w: %s", err, line)
		}
	}
}

// line takes a line of strace's. A call that another thread's came between
// stands in two parts.
func (p *parser) line(line string) error {
	thread, text, _ := strings.Cut(line, " ")
	text = strings.TrimLeft(text, " ")
	s := &started{before: p.changes}
	if rest, ok := strings.CutPrefix(text, "<... "); ok {
		_, rest, ok = strings.Cut(rest, " resumed>")
		if s = p.waiting[thread]; s == nil || !ok {
			return errors.New("the end of a call without its beginning")
		}
		delete(p.waiting, thread)
		if text = s.text + rest; strings.HasPrefix(text, "close(") {
			return nil
		}
	} else if begin, ok := strings.CutSuffix(text, " <unfinished ...>"); ok {
		s.text = begin
		p.waiting[thread] = s
		if fd, ok := strings.CutPrefix(begin, "close("); ok {
			delete(p.open, fd) // another thread may get its number before the end
		}
		return nil
	}
	name, rest, ok := strings.Cut(text, "(")
	end := strings.LastIndex(rest, " = ")
	if !ok || end < 0 {
		return nil // the end of a thread, or a call that it did not live to see
	}
	args := strings.Split(strings.TrimRight(rest[:end], " )"), ", ")
	result, _, _ := strings.Cut(rest[end+3:], " ")
	n, err := strconv.ParseInt(result, 0, 64)
	if err != nil || n < 0 {
		return nil // it failed, and changed nothing
	}
	return p.call(name, args, n, s.before)
}

func (p *parser) call(name string, args []string, n int64, before int) error {
	if f := p.open[args[0]]; strings.HasSuffix(strings.TrimSuffix(name, "2"), "at") && f != nil && f.node >= 0 {
		return errors.New("a path below an open directory is not understood")
	}
	switch name {
	case "openat":
		return p.opens(args, strconv.FormatInt(n, 10))
	case "close":
		delete(p.open, args[0])
		return nil
	case "mkdirat", "mkdir":
		if name == "mkdirat" {
			args = args[1:]
		}
		return p.makes(name, args[0], &node{names: map[string]int{}})
	case "unlinkat", "unlink", "rmdir":
		if name == "unlinkat" {
			args = args[1:]
		}
		return p.removes(name, args[0])
	case "renameat", "renameat2":
		return p.renames(name, args[1], args[3])
	case "rename":
		return p.renames(name, args[0], args[1])
	case "linkat":
		return p.links(name, args[1], args[3])
	case "link":
		return p.links(name, args[0], args[1])
	case "open", "creat", "truncate", "symlink", "symlinkat":
		return p.outside(name, args...)
	}
	return p.described(name, args, n, before)
}

// described plays calls that name their file by a descriptor.
func (p *parser) described(name string, args []string, n int64, before int) error {
	if name == "write" && args[0] == "1" {
		return p.acks(args[1])
	}
	f := p.open[args[0]]
	if f == nil || f.node < 0 {
		if out := p.open[args[min(2, len(args)-1)]]; name == "copy_file_range" && out != nil && out.node >= 0 {
			return errors.New("a copy from outside is not understood")
		}
		return nil
	}
	switch name {
	case "read":
		f.off += n
	case "lseek":
		f.off = n
	case "write", "pwrite64":
		data, err := unquote(args[1])
		if err != nil || int64(len(data)) < n {
			return errors.Join(errors.New("the data of a write is incomplete"), err)
		}
		off := f.off
		switch {
		case name == "pwrite64":
			if off, err = strconv.ParseInt(args[3], 0, 64); err != nil {
				return err
			}
		case f.append:
			off = int64(len(p.now.node(f.node).data))
			fallthrough
		default:
			f.off = off + n
		}
		p.changed(fmt.Sprintf("%s of %d bytes at %d of %s", name, n, off, p.nameOf(f.node)), op{node: f.node, off: off, data: data[:n]})
	case "copy_file_range":
		to := p.open[args[2]]
		if to == nil || to.node < 0 || args[1] != "NULL" || args[3] != "NULL" {
			return errors.New("a copy that is not understood")
		}
		data := bytes.Clone(p.now.node(f.node).data[f.off:][:n])
		p.changed(fmt.Sprintf("%s of %d bytes to %s", name, n, p.nameOf(to.node)), op{node: to.node, off: to.off, data: data})
		f.off, to.off = f.off+n, to.off+n
	case "ftruncate":
		size, err := strconv.ParseInt(args[1], 0, 64)
		if err != nil {
			return err
		}
		p.changed(fmt.Sprintf("%s of %s to %d", name, p.nameOf(f.node), size), op{node: f.node, size: size})
	case "fsync", "fdatasync":
		p.steps = append(p.steps, step{sync: f.node, before: before, call: name + " of " + p.nameOf(f.node)})
	default:
		return errors.New("a call that is not understood")
	}
	return nil
}

func (p *parser) changed(call string, o op) {
	o.seq = p.changes
	p.changes++
	p.steps = append(p.steps, step{change: &o, call: call})
	p.now = p.now.change([]op{o})
}

func (p *parser) acks(quoted string) error {
	text, err := unquote(quoted)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		p.steps = append(p.steps, step{ack: line, call: "the line " + line})
	}
	return nil
}

func (p *parser) opens(args []string, fd string) error {
	f := &opened{node: -1, append: strings.Contains(args[2], "O_APPEND")}
	p.open[fd] = f
	rel, ok, err := p.rel(args[1])
	if err != nil || !ok {
		return err
	}
	if f.node, ok = p.find(rel); !ok {
		if err := p.makes("creation", args[1], &node{}); err != nil {
			return err
		}
		f.node, _ = p.find(rel)
	} else if strings.Contains(args[2], "O_TRUNC") && len(p.now[f.node].data) > 0 {
		p.changed("emptying of "+rel, op{node: f.node})
	}
	return nil
}

// find returns what has a name, seen by the program.
func (p *parser) find(rel string) (int, bool) {
	if rel == "." {
		return 0, true
	}
	dir, name, err := p.now.parent(rel)
	if err != nil {
		return 0, false
	}
	id, ok := p.now[dir].names[name]
	return id, ok
}

// named adds a change of names within one directory.
func (p *parser) named(call, rel string, id int) error {
	dir, name, err := p.now.parent(rel)
	if err != nil {
		return err
	}
	p.changed(call+" of "+rel, op{node: dir, names: map[string]int{name: id}})
	return nil
}

func (p *parser) makes(call, quoted string, n *node) error {
	rel, ok, err := p.rel(quoted)
	if err != nil || !ok {
		return err
	}
	id := len(p.base)
	p.base[id], p.now[id] = n, n // without a name yet
	return p.named(call, rel, id)
}

func (p *parser) removes(call, quoted string) error {
	rel, ok, err := p.rel(quoted)
	if err != nil || !ok {
		return err
	}
	return p.named(call, rel, gone)
}

func (p *parser) links(call, from, to string) error {
	rel, ok, err := p.rel(from)
	if err != nil || !ok {
		return errors.Join(err, p.outside(call, to))
	}
	id, ok := p.find(rel)
	if rel, inside, err := p.rel(to); ok && inside && err == nil {
		return p.named(call, rel, id)
	}
	return errors.New("a link that is not understood")
}

func (p *parser) renames(call, from, to string) error {
	old, ok, err := p.rel(from)
	if err != nil || !ok {
		return errors.Join(err, p.outside(call, to))
	}
	rel, ok, err := p.rel(to)
	if err != nil || !ok || filepath.Dir(rel) != filepath.Dir(old) {
		return errors.Join(errors.New("a rename to another directory is not understood"), err)
	}
	id, ok := p.find(old)
	dir, name, err := p.now.parent(rel)
	if err != nil || !ok {
		return errors.Join(errors.New("a rename of nothing"), err)
	}
	p.changed(call+" to "+rel, op{node: dir, names: map[string]int{filepath.Base(old): gone, name: id}})
	return nil
}

// outside fails for a call on what is inside, which is not understood.
func (p *parser) outside(call string, args ...string) error {
	for _, a := range args {
		if !strings.HasPrefix(a, `"`) {
			continue
		}
		if _, inside, err := p.rel(a); err != nil || inside {
			return errors.Join(fmt.Errorf("the call %s is not understood", call), err)
		}
	}
	return nil
}

// rel is a quoted path as seen from the directory; ok says that it is inside.
func (p *parser) rel(quoted string) (rel string, ok bool, err error) {
	b, err := unquote(quoted)
	if err != nil {
		return "", false, err
	}
	path := string(b)
	if !filepath.IsAbs(path) {
		return "", false, nil // the program uses absolute paths for its files
	}
	rel, err = filepath.Rel(p.dir, path)
	return rel, err == nil && filepath.IsLocal(rel), err
}

func (p *parser) nameOf(id int) (name string) {
	name = "a file without a name"
	p.now.walk(0, ".", func(path string, at int, _ *node) {
		if at == id {
			name = path
		}
	})
	return name
}

// unquote reads "\x41\x42".
func unquote(s string) ([]byte, error) {
	s, ok := strings.CutPrefix(s, `"`)
	s, end := strings.CutSuffix(s, `"`)
	if !ok || !end {
		return nil, errors.New("a text is cut off")
	}
	return hex.DecodeString(strings.ReplaceAll(s, `\x`, ""))
}
