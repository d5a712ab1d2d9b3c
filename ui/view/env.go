package view

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/mission"
)

// shellLimit is how long the login shell may take to say its environment.
const shellLimit = 5 * time.Second

// withEnv calls then, now or when the login shell was asked, with the variables
// that a proposal takes along.
func (d *desk) withEnv(then func()) {
	if d.env != nil {
		then()
		return
	}
	d.envWait = append(d.envWait, then)
	if len(d.envWait) > 1 {
		return
	}
	task(d, func(ctx context.Context) (map[string]string, error) {
		return pick(loginEnv(ctx), mission.Variables()), nil
	}, func(env map[string]string, _ error) {
		d.env = env
		wait := d.envWait
		d.envWait = nil
		for _, f := range wait {
			f()
		}
	})
}

// loginEnv asks the person's login shell for its environment, because a desktop
// program is often started without what their profile sets, PATH above all. It
// falls back to the program's own. The shell is given a fixed command; nothing
// of ours goes into it.
func loginEnv(ctx context.Context) []string {
	own := os.Environ()
	shell := getenv("SHELL")
	if runtime.GOOS == "windows" || !filepath.IsAbs(shell) {
		return own
	}
	ctx, cancel := context.WithTimeout(ctx, shellLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, "-lc", `printf '\0'; env -0`)
	cmd.WaitDelay = time.Second // a profile may leave a process with the pipe
	out, err := cmd.Output()
	_, out, _ = bytes.Cut(out, []byte{0}) // what the profile printed before
	var found []string
	for entry := range bytes.SplitSeq(out, []byte{0}) {
		if name, _, ok := strings.Cut(string(entry), "="); ok && name != "" {
			found = append(found, string(entry))
		}
	}
	if err != nil || !slices.ContainsFunc(found, func(e string) bool { return strings.HasPrefix(e, "PATH=") }) {
		return own
	}
	return found
}

// pick keeps the variables with one of the names.
func pick(env, names []string) map[string]string {
	out := map[string]string{}
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok && value != "" && slices.Contains(names, name) {
			out[name] = value
		}
	}
	return out
}
