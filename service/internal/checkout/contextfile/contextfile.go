// Package contextfile keeps the files in a worker's checkout from which a
// bridge learns for whom it speaks where the agent program passes it no
// environment: a context and a marker beside it, once under Reeve's names and
// once under those that the letagents bridge looks for.
//
// They hold no secret, are the user's alone and replaced whole. Git does not
// see them: their names stand in the info/exclude that all worktrees of a
// repository share, where they stay. No git runs here, since it would run what
// the repository configures.
package contextfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/reevehq/reeve/service/internal/private"
)

// maxSize is the most bytes that a bridge reads of such a file.
const maxSize = 4 << 10

const (
	ourContext   = ".reeve-supervisor-context.json"
	ourMarker    = ".reeve-work-attempt.json"
	theirContext = ".letagents-supervisor-context.json"
	theirMarker  = ".letagents-work-attempt.json"
)

// Names are the files' names, sorted. They lie at the root of a checkout.
func Names() []string { return []string{theirContext, theirMarker, ourContext, ourMarker} }

// Context is what a bridge of Codex learns from its file. Session and Name may
// be empty.
type Context struct {
	Version   int    `json:"version"`  // Write sets it
	Provider  string `json:"provider"` // Write sets it: there is no other than codex
	Entry     string `json:"entry_id"`
	Room      string `json:"room_id"`
	Attempt   string `json:"work_attempt_id"`
	Execution string `json:"execution_generation_id"`
	Session   string `json:"agent_session_id,omitempty"`
	Name      string `json:"agent_display_name,omitempty"`
}

// marker is the file beside a context, which must agree with it.
type marker struct {
	Version int    `json:"version"`
	Attempt string `json:"work_attempt_id"`
}

// Write puts the files of c into the checkout folder, or none of them: a name
// that the repository tracks, or at which a link or a folder lies, is not ours
// to replace, and without the lines in info/exclude they would be taken for
// work. The error says which of it, for a person. What an earlier attempt left
// is replaced.
func Write(folder string, c Context) (err error) {
	g, err := find(folder)
	if err != nil {
		return err
	}
	c.Version, c.Provider = 1, "codex"
	context, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if len(context) > maxSize {
		return fmt.Errorf("the context of the attempt has %d bytes; a bridge reads %d at most", len(context), maxSize)
	}
	mark, err := json.Marshal(marker{Version: 1, Attempt: c.Attempt})
	if err != nil {
		return err
	}
	for _, name := range Names() {
		info, err := os.Lstat(filepath.Join(folder, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("look at %s: %w", name, err)
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s in the checkout is no regular file; move it away", name)
		}
	}
	if name, err := g.tracked(Names()); err != nil {
		return fmt.Errorf("look for the files of a bridge in git's index: %w", err)
	} else if name != "" {
		return fmt.Errorf("%s is in the repository itself; take it out with git rm", name)
	}
	if err := g.exclude(Names()); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, Remove(folder, c.Attempt))
		}
	}()
	// The marker comes first: a context without it counts for nothing.
	for _, f := range []struct {
		name string
		data []byte
	}{{ourMarker, mark}, {ourContext, context}, {theirMarker, mark}, {theirContext, context}} {
		if err := g.replace(filepath.Join(folder, f.name), f.data); err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
	}
	return nil
}

// replace writes a private file next to git's own, where nobody looks, and gives
// it its name in one step.
func (g repository) replace(path string, data []byte) error {
	temp := filepath.Join(g.own, "reeve-context.new")
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // what a guard that was killed left
	}
	if err := create(temp, data); err != nil {
		return err
	}
	err := os.Rename(temp, path)
	if err == nil {
		return nil
	}
	err = errors.Join(err, os.Remove(temp))
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	// The checkout is on another file system than git's directory. Nobody reads
	// the file yet.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return create(path, data)
}

func create(path string, data []byte) error {
	f, err := private.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// Remove takes the files of attempt out of folder and leaves those of another
// attempt, and whatever else bears their names. There need be none.
func Remove(folder, attempt string) error {
	var failed []error
	for _, name := range Names() {
		path := filepath.Join(folder, name)
		var m marker
		if raw, err := private.ReadFile(path, maxSize); err != nil || json.Unmarshal(raw, &m) != nil || m.Attempt != attempt {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// Is says whether a slash-separated path in a checkout is that of such a file.
func Is(path string) bool { return slices.Contains(Names(), path) }
