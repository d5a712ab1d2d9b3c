//go:build unix

package guard_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/reevehq/reeve/service/guard"
)

// TestGitUndoneWhenNobodyListens: what a command left that must be whole is
// taken back by its guard when it fails and nobody is there, and only then.
func TestGitUndoneWhenNobodyListens(t *testing.T) {
	for name, c := range map[string]struct {
		exit  string
		heard bool
		want  string
	}{
		"gave up":       {"1", false, "undone\n"},
		"cut off":       {"128", false, "undone\nrestored\n"},
		"ended well":    {"0", false, ""},
		"somebody does": {"128", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := repository(t)
			mkfifo(t, filepath.Join(g.dir, "begun"))
			mkfifo(t, filepath.Join(g.dir, "go"))
			g.sh("if [ $# = 0 ]; then echo x >begun; read x <go; exit " + c.exit + "; fi; read x; echo $x >>done; exit 3")
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := g.run(ctx, guard.GitRun{Args: []string{"sh"}, Whole: true, Undo: []guard.GitUndo{
					{Args: []string{"sh", "undo"}, Stdin: []byte("undone\n")},
					{Args: []string{"sh", "undo"}, Stdin: []byte("restored\n"), CutOff: true},
				}})
				ended <- err
			}()
			g.said("begun")
			keeper, inner := g.processes()
			var on *guard.GoesOn
			if !c.heard {
				cancel()
				if err := <-ended; !errors.As(err, &on) {
					t.Fatal(err)
				}
			}
			pipe, err := os.OpenFile(filepath.Join(g.dir, "go"), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer pipe.Close()
			if _, err := pipe.WriteString("go\n"); err != nil {
				t.Fatal(err)
			}
			if c.heard {
				var failed *guard.GitError
				if err := <-ended; !errors.As(err, &failed) {
					t.Fatal(err)
				}
			} else {
				<-on.Ended
			}
			ends(t, "keeper", keeper)
			ends(t, "guard", inner)
			done, err := os.ReadFile(filepath.Join(g.dir, "done"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if string(done) != c.want {
				t.Errorf("%q was done, want %q", done, c.want)
			}
		})
	}
}
