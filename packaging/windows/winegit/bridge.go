//go:build !windows

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// It takes the folder of Wine's drive C, and the one in which the half for
// Windows lies.
func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: winegit DRIVE-C FOLDER")
		os.Exit(2)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = os.WriteFile(filepath.Join(os.Args[2], addressFile), []byte(l.Addr().String()), 0o600)
	}
	for err == nil {
		var c net.Conn
		if c, err = l.Accept(); err == nil {
			go serve(c, os.Args[1])
		}
	}
	fmt.Fprintln(os.Stderr, "winegit:", err)
	os.Exit(1)
}

func serve(c net.Conn, drive string) {
	defer c.Close()
	in := bufio.NewReader(c)
	line, err := in.ReadBytes('\n')
	var q question
	if err != nil || json.Unmarshal(line, &q) != nil {
		return
	}
	cmd := exec.Command("git")
	for _, a := range q.Args {
		cmd.Args = append(cmd.Args, here(a, drive))
	}
	cmd.Dir, cmd.Env = here(q.Dir, drive), os.Environ()
	for _, e := range q.Env {
		cmd.Env = append(cmd.Env, here(e, drive))
	}
	var mu sync.Mutex
	say := func(p part) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(c).Encode(p)
	}
	cmd.Stdout = writer(func(b []byte) { say(part{Out: there(b, drive)}) })
	cmd.Stderr = writer(func(b []byte) { say(part{Err: there(b, drive)}) })
	code := 127
	if stdin, err := cmd.StdinPipe(); err == nil && cmd.Start() == nil {
		go func() {
			_, _ = io.Copy(stdin, in)
			_ = stdin.Close()
		}()
		_ = cmd.Wait() // the exit code says it
		code = cmd.ProcessState.ExitCode()
	}
	say(part{Exit: &code})
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

var windowsPath = regexp.MustCompile(`(^|[=: ])([A-Za-z]):[\\/]([^\n]*)$`)

// here writes a text with a path at its end for this system.
func here(s, drive string) string {
	m := windowsPath.FindStringSubmatch(s)
	if m == nil {
		return strings.ReplaceAll(s, "=NUL", "="+os.DevNull)
	}
	root := "/"
	if strings.EqualFold(m[2], "c") {
		root = drive + "/"
	}
	return strings.TrimSuffix(s, m[0]) + m[1] + root + strings.ReplaceAll(m[3], `\`, "/")
}

// there writes what git said as it says it on Windows.
func there(b []byte, drive string) []byte { return bytes.ReplaceAll(b, []byte(drive), []byte("C:")) }
