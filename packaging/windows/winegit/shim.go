//go:build windows

// Command winegit is git for tests under Wine, where there is no git: there it
// hands its arguments and its input over to this machine's git, by way of the
// other half of this program.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "winegit:", err)
		code = 125
	}
	os.Exit(code)
}

func run() (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	address, err := os.ReadFile(filepath.Join(filepath.Dir(self), addressFile))
	if err != nil {
		return 0, err
	}
	c, err := net.Dial("tcp", string(address))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	q := question{Args: os.Args[1:]}
	if q.Dir, err = os.Getwd(); err != nil {
		return 0, err
	}
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "GIT_") {
			q.Env = append(q.Env, e)
		}
	}
	if err := json.NewEncoder(c).Encode(q); err != nil {
		return 0, err
	}
	go func() {
		_, _ = io.Copy(c, os.Stdin)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	in := json.NewDecoder(bufio.NewReader(c))
	for {
		var p part
		if err := in.Decode(&p); err != nil {
			return 0, err
		}
		if p.Exit != nil {
			return *p.Exit, nil
		}
		if _, err := os.Stdout.Write(p.Out); err != nil {
			return 0, err
		}
		if _, err := os.Stderr.Write(p.Err); err != nil {
			return 0, err
		}
	}
}
