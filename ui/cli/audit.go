package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/ipc/client"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

func (a *app) audit() *cobra.Command {
	c := &cobra.Command{
		Use: "audit", Short: "Check or export the audit log",
		Long:    "Every approval, answer, refusal and start is in an append-only log whose entries are chained by their hashes.",
		Example: "  reeve audit verify\n  reeve audit export --output audit.jsonl",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.auditVerify(), a.auditExport())
	return c
}

func (a *app) auditVerify() *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Check that nobody edited the audit log",
		Long: `Check the whole chain of the audit log. Keep the head that it prints somewhere
else: only a head from elsewhere shows an edit by a program that runs as you.`,
		Example: "  reeve audit verify --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := call[wire.AuditVerifyResult](c.Context(), a, wire.MethodAuditVerify, nil)
			if err != nil {
				return err
			}
			if a.json {
				err = a.printJSON(r)
			} else if r.OK {
				fmt.Fprintf(a.Stdout, "%s, unbroken.\nHead %s\n", model.Count(int(r.Entries), "entry", "entries"), r.Head)
			}
			if err == nil && !r.OK {
				return &Failure{Exit: ExitFailed, What: fmt.Sprintf("The audit log is broken at entry %d: %s.", r.BrokenAt, strings.TrimSuffix(model.Clean(r.Detail), ".")),
					Next: "Somebody edited the database; compare it with a head that you kept elsewhere."}
			}
			return err
		},
	}
}

func (a *app) auditExport() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use: "export", Short: "Write the audit log as lines of JSON",
		Long: `Write every entry of the audit log as one line of JSON, the oldest first and as
it is stored: with its number, its hash, and the hash of the entry before. Whoever
has the lines can check the chain. How many there are, and the head of the chain,
is told on standard error. A file is private, is written whole or not at all, and
replaces none.`,
		Example: "  reeve audit export --output audit.jsonl\n  reeve audit export | grep '\"kind\":\"refusal\"'",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := interruptible(c.Context())
			defer cancel()
			var sum exported
			write := func(w io.Writer) (err error) {
				sum, err = a.exportAudit(ctx, w)
				return err
			}
			var err error
			if c.Flags().Changed("output") {
				err = newFile(output, write)
			} else {
				err = write(a.Stdout)
			}
			if errors.Is(err, context.Canceled) {
				return &Failure{Exit: ExitFailed, What: "The export was broken off."}
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stderr, "%s exported.\nHead %s\n", model.Count(sum.entries, "entry", "entries"), model.Clean(sum.head))
			if sum.broken != "" {
				return &Failure{Exit: ExitFailed, What: sum.broken, Next: "All that is there was exported. Run `reeve audit verify`."}
			}
			return nil
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "write to this new file instead of standard output")
	return c
}

// exported sums up an export: how many entries there were, the hash of the last
// one, and the first place where one does not follow the one before.
type exported struct {
	entries      int
	head, broken string
}

// exportAudit writes the audit log, page by page. Entries that are added
// meanwhile come along.
func (a *app) exportAudit(ctx context.Context, w io.Writer) (sum exported, err error) {
	c, err := a.dial(ctx)
	if err != nil {
		return sum, err
	}
	defer c.Close()
	page := func(after uint64) (wire.AuditReadResult, error) {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		return client.Do[wire.AuditReadResult](ctx, c, wire.MethodAuditRead, wire.AuditReadParams{After: after})
	}
	for after, more := uint64(0), true; more; {
		r, err := page(after)
		if err != nil {
			return sum, err
		}
		for _, line := range r.Entries {
			if _, err := fmt.Fprintf(w, "%s\n", line); err != nil {
				return sum, err
			}
			sum.add(line)
		}
		after, more = r.Next, r.More && r.Next > after
	}
	return sum, nil
}

// add counts an entry, and looks whether it follows the one before. Whether its
// hash fits, audit verify tells.
func (s *exported) add(line []byte) {
	var e wire.AuditEntry
	s.entries++
	if err := json.Unmarshal(line, &e); s.broken == "" && (err != nil || e.Seq != uint64(s.entries) || e.Prev != s.head) {
		s.broken = fmt.Sprintf("The audit log is broken at entry %d.", s.entries)
	}
	s.head = e.Hash
}

// newFile makes a private file of what write writes. It appears under its name
// only when it is whole and on the disk, and never in the place of another.
func newFile(path string, write func(io.Writer) error) (err error) {
	if path == "" {
		return usage("For example: --output audit.jsonl.", "--output takes the name of a new file.")
	}
	if err := unused(path); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".reeve-export-*") // with the mode 0600
	if errors.Is(err, fs.ErrNotExist) {
		return &Failure{Exit: ExitRefused, What: "There is no folder " + model.Clean(dir) + ".", Next: "Make it, or name a file in another."}
	}
	if err != nil {
		return fmt.Errorf("make %s: %w", model.Clean(path), err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", model.Clean(path), err)
	}
	if err := unused(path); err != nil { // it may have come meanwhile
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", model.Clean(path), err)
	}
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("%s was written, but may be lost with a loss of power: %w", model.Clean(path), err)
	}
	return nil
}

// syncDir makes a new name in a folder durable.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // NTFS journals its names
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// unused refuses a name that something has.
func unused(path string) error {
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return &Failure{Exit: ExitRefused, What: model.Clean(path) + " is there already.", Next: "Name a new file, or remove that one."}
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}
