package checkout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Git runs one git command on a checkout, in a guard of its own, since all but
// rev-parse and config can execute what the repository configures. It returns
// the standard output. A git that ran and failed is an error with a Failure in
// its chain; any other error means that git did not answer.
type Git func(ctx context.Context, c GitCommand) ([]byte, error)

// GitCommand is one call of git.
type GitCommand struct {
	Dir    string   // where git runs, an absolute path
	Config []string // settings for this command, key=value; they switch hooks and fsmonitor off
	Args   []string // from the subcommand on
	Env    []string // additions to a clean environment, KEY=value
	Stdin  []byte
	// Limit is how many bytes of the standard output are wanted. The rest must
	// be read and dropped, which is no error.
	Limit int
	// Within is how long git may take, 0 for the usual time.
	Within time.Duration
	// Whole: a git that is cut off would leave the checkout half changed. It
	// goes on by itself when ctx ends, which is ErrGoesOn; nothing but its time
	// ends it.
	Whole bool
	// Undo takes back what a command left that is Whole, went on by itself and
	// failed.
	Undo []GitUndo
}

// GitUndo is a command that takes back what another one left, whatever became
// of the undo before it.
type GitUndo struct {
	Args  []string
	Stdin []byte
	// CutOff: not after exit codes 1 and 2, with which git gave up by itself.
	CutOff bool
}

// ErrGoesOn is what a Git answers to a command that is Whole, and goes on though
// ctx has ended. Nobody may touch the checkout meanwhile.
var ErrGoesOn = errors.New("git goes on by itself")

// Failure is a git that answered with an exit code that is not 0.
type Failure interface {
	error
	ExitCode() int
	Stderr() string
}

// maxOutput bounds the output, in bytes, of a command whose whole answer is
// needed.
const maxOutput = 64 << 20

// at builds calls of git in one directory.
type at struct {
	run    Git
	dir    string
	config []string // more settings, as key=value
	env    []string
	within time.Duration
	whole  bool
	undo   []GitUndo
}

// slowLimit is how long git may take that goes through all files: there may be
// many, and filters may fetch each from somewhere. The caller's ctx ends sooner
// where nobody waits that long.
const slowLimit = 15 * time.Minute

// offline are settings for calls that have no need of a network: a partial
// clone would fetch what it lacks, with programs that the repository names.
var offline = []string{"protocol.allow=never"}

// call runs git and needs its whole answer.
func (a at) call(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	out, err := a.some(ctx, maxOutput+1, stdin, args...)
	if err == nil && len(out) > maxOutput {
		return nil, refuse("git", fmt.Sprintf("Git's answer about %s is longer than %d MiB.", a.dir, maxOutput>>20), "Let git ignore what does not belong to the project, then try again.")
	}
	return out, err
}

// some runs git and takes at most limit bytes of its answer. Hooks do not run
// (the agent could have written them), nothing prompts, no housekeeping starts,
// and paths are never patterns.
func (a at) some(ctx context.Context, limit int, stdin []byte, args ...string) ([]byte, error) {
	c := GitCommand{Dir: a.dir, Args: args, Stdin: stdin, Limit: limit, Within: a.within, Whole: a.whole, Undo: a.undo}
	c.Config = append([]string{"core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false"}, a.config...)
	c.Env = append([]string{"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_EDITOR=false", "GIT_PAGER=cat", "GIT_LITERAL_PATHSPECS=1"}, a.env...)
	out, err := a.run(ctx, c)
	for range tries - 1 {
		if ctx.Err() != nil || !passing(err) || !a.mayRepeat(args[0]) {
			break
		}
		out, err = a.run(ctx, c)
	}
	if err != nil {
		return nil, fmt.Errorf("git %s in %s: %w", args[0], a.dir, err)
	}
	return out, nil
}

// tries is how often git is run when files change while it reads them.
const tries = 5

// passing says whether git failed in a way that such files cause: it is killed
// (SIGBUS) when one became shorter, since it maps them, and gives up when one
// goes or is not what it was a moment ago.
func passing(err error) bool {
	var f Failure
	return errors.As(err, &f) && (f.ExitCode() <= 1 || strings.Contains(f.Stderr(), "unable to stat") || strings.Contains(f.Stderr(), "unstable object source data"))
}

// mayRepeat says whether a command that was cut off left nothing that the next
// one could trip over: it only reads, or it fills an index that is ours alone,
// whose lock goes with it.
func (a at) mayRepeat(command string) bool {
	switch command {
	case "diff-index", "diff", "status":
		return true
	case "add", "update-index", "write-tree": // the last reads files that are as young as the index, too
		for _, kv := range a.env {
			if index, ours := strings.CutPrefix(kv, "GIT_INDEX_FILE="); ours {
				err := os.Remove(index + ".lock")
				return err == nil || errors.Is(err, fs.ErrNotExist)
			}
		}
	}
	return false
}

// list runs git and splits its answer at the NULs.
func (a at) list(ctx context.Context, args ...string) ([]string, error) {
	out, err := a.call(ctx, nil, args...)
	return split(out), err
}

// line runs git and returns its answer without the newline.
func (a at) line(ctx context.Context, args ...string) (string, error) {
	out, err := a.call(ctx, nil, args...)
	return strings.TrimSpace(string(out)), err
}

func split(out []byte) []string {
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// exit returns the exit code of a git that answered, 0 for no error and -1 for
// another error.
func exit(err error) int {
	var f Failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		return f.ExitCode()
	}
	return -1
}

// said returns what git wrote about its failure, at most 1,000 bytes.
func said(err error) string {
	var f Failure
	if !errors.As(err, &f) {
		return ""
	}
	s := strings.TrimSpace(f.Stderr())
	if len(s) > 1000 {
		s = strings.ToValidUTF8(s[:1000], "") + "…"
	}
	return s
}

func refuse(name, what, fix string) *Refusal { return &Refusal{Name: name, What: what, Fix: fix} }

// commit returns what rev names in the repository of dir, "" when there is no
// such thing. No object is read.
func commit(ctx context.Context, dir, rev string) (string, error) {
	out, err := git(ctx, dir, "rev-parse", "--verify", "--quiet", rev)
	var r *Refusal
	if errors.As(err, &r) || ctx.Err() != nil {
		return "", err
	}
	return strings.TrimSpace(out), nil // quiet: an error is a missing name
}

// ownDir returns the git directory of the checkout at dir, absolute.
func ownDir(ctx context.Context, dir string) (string, error) {
	own, err := git(ctx, dir, "rev-parse", "--absolute-git-dir")
	return strings.TrimSuffix(own, "\n"), err
}

// commonDir returns the git directory that the checkout at dir shares with its
// worktrees, absolute.
func commonDir(ctx context.Context, dir string) (string, error) {
	common, err := git(ctx, dir, "rev-parse", "--git-common-dir")
	if err != nil {
		return "", err
	}
	if common = strings.TrimSuffix(common, "\n"); !filepath.IsAbs(common) {
		common = filepath.Join(dir, common)
	}
	return common, nil
}

// entry looks at the slash-separated path rel below root without following any
// symbolic link: what lies behind one is not in the tree.
func entry(root, rel string) (fs.FileInfo, error) {
	at := root
	for {
		name, rest, more := strings.Cut(rel, "/")
		at = filepath.Join(at, name)
		info, err := os.Lstat(at)
		if err != nil || !more {
			return info, err
		}
		if !info.IsDir() {
			return nil, fs.ErrNotExist
		}
		rel = rest
	}
}

// nul joins paths for git's -z --stdin.
func nul(paths []string) []byte {
	var b bytes.Buffer
	for _, p := range paths {
		b.WriteString(p)
		b.WriteByte(0)
	}
	return b.Bytes()
}

func isHex(s string) bool {
	return len(s) >= 40 && len(s) <= 64 && strings.Trim(s, "0123456789abcdef") == ""
}
