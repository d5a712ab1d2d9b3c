// Manual writes manual pages and shell completions from the command line's own
// tree of commands, so that they can't say anything else.
//
//	go run ./packaging/manual DIR
//
// writes DIR/man/*.1.gz and DIR/completions/{reeve,_reeve,reeve.fish,reeve.ps1}.
// The pages carry the day of SOURCE_DATE_EPOCH (seconds), or of now.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/reevehq/reeve/assets"
	"github.com/reevehq/reeve/ui/cli"
)

// more is what the first page says beyond the help of `reeve`.
const more = `
# EXIT STATUS
**0** done; **1** failed; **2** wrong usage; **3** the service can't be reached; **4** refused; **5** denied, or not
answered; **6** timed out; **7** another service owns the state.

# ENVIRONMENT
**REEVE_STATE** is the folder that holds the state of another, private instance. **NO_COLOR** prints without colours.

# FILES
The state is in *$XDG_STATE_HOME/reeve*, else in *~/.local/state/reeve*. **reeve doctor** names and checks it.
`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./packaging/manual DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1], day(os.Getenv("SOURCE_DATE_EPOCH"))); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

// day reads seconds since 1970; anything else is now.
func day(epoch string) time.Time {
	if n, err := strconv.ParseInt(epoch, 10, 64); err == nil {
		return time.Unix(n, 0).UTC()
	}
	return time.Now().UTC()
}

func write(dir string, day time.Time) error {
	files := make(map[string][]byte)
	root := cli.Tree()
	root.DisableAutoGenTag = true
	for name, completion := range map[string]func(*bytes.Buffer) error{
		"reeve":      func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) },
		"_reeve":     func(b *bytes.Buffer) error { return root.GenZshCompletion(b) },
		"reeve.fish": func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) },
		"reeve.ps1":  func(b *bytes.Buffer) error { return root.GenPowerShellCompletionWithDesc(b) },
	} {
		var b bytes.Buffer
		if err := completion(&b); err != nil {
			return err
		}
		files["completions/"+name] = b.Bytes()
	}
	root.Long += "\n" + more
	if err := pages(files, root, day); err != nil {
		return err
	}
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pages adds the page of c and of everything below it that people may run.
func pages(files map[string][]byte, c *cobra.Command, day time.Time) error {
	var page, packed bytes.Buffer
	header := doc.GenManHeader{Section: "1", Date: &day, Source: "Reeve " + assets.Version, Manual: "Reeve"}
	if err := doc.GenMan(c, &header, &page); err != nil {
		return err
	}
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(page.Bytes()); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	files["man/"+strings.ReplaceAll(c.CommandPath(), " ", "-")+".1.gz"] = packed.Bytes()
	for _, below := range c.Commands() {
		if !below.IsAvailableCommand() || below.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := pages(files, below, day); err != nil {
			return err
		}
	}
	return nil
}
