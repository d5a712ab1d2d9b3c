// Package powerloss finds out what a program's files look like after a loss of
// power at any instant: it records the program's system calls, and puts
// together every state that the disk could be in, from what was synced and any
// part of what was not. Only tests use it.
//
// The disk it plays is a bad one, as POSIX allows: what is written reaches it
// in any order or not at all until the file is synced, and a name (a new file,
// a rename, a removal) until the directory is synced, whatever happened to the
// file. One write can reach it in part. One change of names within a directory
// is whole or not there.
package powerloss

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// exhaustive is how many pending changes are combined in every way; of more
// only telling choices are tried.
const exhaustive = 5

// Test runs cmd, which does its work below dir, and lets check look at the
// states that a power loss could leave: at all of them with REEVE_TEST_CRASH=all,
// else at a few hundred of them. It logs how many there were, and skips t where
// system calls can't be recorded. Record says what cmd must not do.
func Test(t testing.TB, cmd *exec.Cmd, dir string, check Check) {
	t.Helper()
	trace, err := Record(cmd, dir)
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	sample := 300
	if os.Getenv("REEVE_TEST_CRASH") == "all" {
		sample = 0
	}
	tried, states, err := trace.Try(sample, check)
	if err != nil {
		t.Fatal(err)
	}
	syncs := trace.Syncs()
	if tried == 0 || syncs == 0 {
		t.Errorf("%d states and %d syncs prove nothing", tried, syncs)
	}
	t.Logf("power loss: %d of %d states of the disk tried, around %d syncs", tried, states, syncs)
}

// Check looks at one state: dir holds what was on the disk, and acked what the
// program had said on its standard output before, a line each. It may change
// dir.
type Check func(dir string, acked []string) error

// Try gives check the states of the disk, all of them or, if sample is not 0, at
// most so many, spread evenly. It returns how many it gave and how many there
// are. It stops at the first error, which it completes with the place in the
// trace.
func (t *Trace) Try(sample int, check Check) (tried, states int, err error) {
	nth := 1
	if sample > 0 {
		if err := t.each(func(state) error { states++; return nil }); err != nil {
			return 0, 0, err
		}
		nth = (states + sample - 1) / sample
	}
	parent, err := os.MkdirTemp(scratch(), "powerloss-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(parent)
	states = 0
	err = t.each(func(s state) error {
		if states++; (states-1)%nth != 0 {
			return nil
		}
		tried++
		dir, err := os.MkdirTemp(parent, "")
		if err != nil {
			return err
		}
		if err := s.durable.change(s.kept).write(dir); err != nil {
			return fmt.Errorf("build a state: %w", err)
		}
		if err := check(dir, slices.Clone(s.acked)); err != nil {
			return fmt.Errorf("power lost after step %d of %d (%s), with %d of %d unsynced changes on the disk and %d lines acknowledged: %w",
				s.step, len(t.steps), t.describe(s.step), len(s.kept), s.pending, len(s.acked), err)
		}
		return os.RemoveAll(dir)
	})
	return tried, states, err
}

// A state is what a loss of power after a step can leave.
type state struct {
	durable disk
	kept    []op // unsynced changes that reached the disk as well
	pending int  // how many there were
	acked   []string
	step    int
}

// each calls fn for every different state, until it fails.
func (t *Trace) each(fn func(state) error) error {
	// Two states are the same that the same changes made, durable or not.
	type key struct {
		changes uint64 // the sum of their ids
		acked   int
	}
	sum := func(ops []op) (n uint64) {
		for _, o := range ops {
			n += o.id()
		}
		return n
	}
	seen, safe := map[key]bool{}, uint64(0)
	durable, pending := t.base, []op(nil)
	var acked []string
	for step := 0; ; step++ {
		for kept := range choices(pending) {
			k := key{safe + sum(kept), len(acked)}
			if seen[k] {
				continue
			}
			seen[k] = true
			if err := fn(state{durable, kept, len(pending), acked, step}); err != nil {
				return err
			}
		}
		if step == len(t.steps) {
			return nil
		}
		switch s := t.steps[step]; {
		case s.change != nil:
			pending = append(pending, *s.change)
		case s.ack != "":
			acked = append(acked, s.ack)
		default:
			var synced, rest []op
			for _, o := range pending {
				if o.node == s.sync && o.seq < s.before {
					synced = append(synced, o)
				} else {
					rest = append(rest, o)
				}
			}
			durable, pending, safe = durable.change(synced), rest, safe+sum(synced)
		}
	}
}

// scratch is a directory in memory where there is one: states are many, and
// their own syncs need not be real.
func scratch() string {
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// choices yields what of the pending changes reached the disk: every subset of
// few; of many none, all, each prefix, each one missing and each one alone,
// only data and only names. Then each write torn, with all others and with none.
func choices(pending []op) func(yield func([]op) bool) {
	return func(yield func([]op) bool) {
		n := len(pending)
		pick := func(keep func(i int) bool) bool {
			var kept []op
			for i, o := range pending {
				if keep(i) {
					kept = append(kept, o)
				}
			}
			return yield(kept)
		}
		if n <= exhaustive {
			for set := range 1 << n {
				if !pick(func(i int) bool { return set>>i&1 == 1 }) {
					return
				}
			}
		} else {
			for k := range n + 1 {
				if !pick(func(i int) bool { return i < k }) ||
					!pick(func(i int) bool { return i != k }) ||
					!pick(func(i int) bool { return i == k }) {
					return
				}
			}
			if !pick(func(i int) bool { return pending[i].names == nil }) ||
				!pick(func(i int) bool { return pending[i].names != nil }) {
				return
			}
		}
		for i, o := range pending {
			for _, part := range o.torn() {
				all := slices.Clone(pending)
				all[i] = part
				if !yield(all) || !yield([]op{part}) {
					return
				}
			}
		}
	}
}
