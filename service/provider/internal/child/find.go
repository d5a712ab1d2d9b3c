package child

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// Find returns the first program of these names in path, which is a PATH, or
// "". Relative entries are passed over: they would mean something else in each
// folder.
func Find(path string, names ...string) string {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		for _, n := range names {
			file := filepath.Join(dir, n)
			st, err := os.Stat(file)
			if err == nil && st.Mode().IsRegular() && (runtime.GOOS == "windows" || st.Mode()&0o111 != 0) {
				return file
			}
		}
	}
	return ""
}

// Kinds of files that start an agent.
const (
	Native = "native" // a program of some system's own kind: ELF, Mach-O, PE
	Script = "script" // with the name of its interpreter in the first line
	Other  = ""
)

// Kind says what kind of program file is, by how it begins.
func Kind(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return Other, err
	}
	defer f.Close()
	head := make([]byte, 4)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return Other, err
	}
	for _, magic := range []string{"\x7fELF", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe", "MZ"} {
		if bytes.HasPrefix(head[:n], []byte(magic)) {
			return Native, nil
		}
	}
	if bytes.HasPrefix(head[:n], []byte("#!")) {
		return Script, nil
	}
	return Other, nil
}

// SystemShell says whether path is a shell of the system, and not just something
// that bears the name of one: what such a shell is given to run is all that runs.
func SystemShell(path string) bool {
	switch path {
	case "/bin/bash", "/bin/sh", "/bin/zsh", "/usr/bin/bash", "/usr/bin/sh", "/usr/bin/zsh":
		return true
	}
	return false
}

// versionWait is how long a program may take to tell its version.
const versionWait = 5 * time.Second

// Version runs the program at path for its version, which is read out of what it
// prints; "" means that this is not the product.
func Version(ctx context.Context, product, path string, env []string, read func(out string) string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = env
	cmd.SysProcAttr = alone() // else what it leaves behind could be taken for the person's, in whose terminal a service may run
	cmd.Dir = os.TempDir()    // not a checkout, which could carry settings
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s at %s did not tell its version within %d seconds", product, path, int(versionWait.Seconds()))
	case err != nil:
		return "", fmt.Errorf("%s at %s does not run: %w", product, path, err)
	}
	v := read(string(out))
	if v == "" {
		return "", fmt.Errorf("the program at %s is not %s: it does not tell its version", path, product)
	}
	return v, nil
}
