package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ui/model"
)

// maxLog bounds how much of the log is read, in bytes. The service starts a new
// file before one grows so large.
const maxLog = 16 << 20

func (a *app) serviceLogs() *cobra.Command {
	var n int
	c := &cobra.Command{
		Use: "logs", Short: "Print the end of the service's log",
		Long:    "Print the end of the service's log, whether it runs or not. With --json every line is an object.",
		Example: "  reeve service logs\n  reeve service logs -n 500 | less",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if n < 1 {
				return usage("For example: reeve service logs -n 100.", "-n takes a number of lines, 1 or more.")
			}
			dir, err := sock.StateDir(a.Getenv)
			if err != nil {
				return err
			}
			path := filepath.Join(dir, "logs", "service.log")
			text, err := tail(path, maxLog)
			if errors.Is(err, fs.ErrNotExist) {
				return &Failure{Exit: ExitFailed, What: "There is no log yet at " + model.Clean(path) + ".", Next: "Run `reeve service start`."}
			}
			if err != nil {
				return fmt.Errorf("read the service's log: %w", err)
			}
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			for _, line := range lines[max(0, len(lines)-n):] {
				if !a.json {
					fmt.Fprintln(a.Stdout, model.Clean(line))
				} else if err := a.printJSON(map[string]string{"line": line}); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().IntVarP(&n, "lines", "n", 50, "how many lines")
	return c
}

// tail reads the last limit bytes of a file.
func tail(path string, limit int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, st.Size()-limit), limit))
	return string(b), err
}
