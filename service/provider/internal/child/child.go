// Package child runs an agent program and keeps hold of its three pipes. It is
// what the adapters share.
package child

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

const (
	// MaxLine limits one line of output. Programs put whole files in a line.
	MaxLine = 64 << 20
	// tailSize is how much of stderr is kept, for classification only.
	tailSize = 16 << 10
	// silence is how long output may be silent after the program has ended.
	// A tool that inherited the pipe would otherwise keep it open for ever.
	silence = time.Second
	// endWait is how long the program may take to end after it closed its output.
	endWait = 5 * time.Second
)

var errLineTooLong = errors.New("the program wrote a line of more than 64 MiB")

// Process is a running program.
type Process struct {
	cmd    *exec.Cmd
	in     *os.File
	write  sync.Mutex // one line at a time
	out    *bufio.Reader
	exited chan struct{}
	gone   chan struct{} // exited, and stderr was read
	err    error         // of Wait; valid after exited

	mu   sync.Mutex
	tail []byte
}

// Start connects pipes to cmd and hands it to launch, which starts it.
func Start(cmd *exec.Cmd, launch func(*exec.Cmd) error) (*Process, error) {
	var files []*os.File
	fail := func(err error) (*Process, error) {
		for _, f := range files {
			f.Close()
		}
		return nil, err
	}
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return fail(fmt.Errorf("make a pipe for %s: %w", cmd.Path, err))
		}
		files = append(files, r, w)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[3], files[5]
	if err := launch(cmd); err != nil {
		return fail(fmt.Errorf("start %s: %w", cmd.Path, err))
	}
	files[0].Close()
	files[3].Close()
	files[5].Close()
	p := &Process{cmd: cmd, in: files[1], exited: make(chan struct{}), gone: make(chan struct{})}
	p.out = bufio.NewReaderSize(&output{file: files[2], exited: p.exited}, 64<<10)
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
		// Wakes a read that began before the end.
		files[2].SetReadDeadline(time.Now().Add(silence))
		files[4].SetReadDeadline(time.Now().Add(silence))
	}()
	go func() {
		defer close(p.gone)
		p.keepTail(&output{file: files[4], exited: p.exited})
		<-p.exited
	}()
	return p, nil
}

// output reads a pipe to its end, and after the end of the program only as long
// as there is something to read.
type output struct {
	file   *os.File
	exited <-chan struct{}
}

func (o *output) Read(b []byte) (int, error) {
	for {
		ended := false
		select {
		case <-o.exited:
			ended = true
			o.file.SetReadDeadline(time.Now().Add(silence))
		default:
		}
		n, err := o.file.Read(b)
		switch {
		case n > 0:
			return n, nil
		case errors.Is(err, os.ErrDeadlineExceeded) && !ended:
			continue // the program ended during the read: try once more
		default:
			o.file.Close()
			return 0, io.EOF
		}
	}
}

func (p *Process) keepTail(r io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		p.mu.Lock()
		p.tail = append(p.tail, buf[:n]...)
		if over := len(p.tail) - tailSize; over > 0 {
			p.tail = append(p.tail[:0], p.tail[over:]...)
		}
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Lines hands every line of output that is not empty to handle, which owns it.
// It returns once the output has ended, or has a line over MaxLine, which ends
// the program. Call End after it.
func (p *Process) Lines(handle func(line []byte)) {
	for {
		line, err := readLine(p.out, MaxLine)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.Kill()
			}
			return
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			handle(line)
		}
	}
}

// End waits for the program, which has closed its output and is killed if it
// stays.
func (p *Process) End() {
	timer := time.NewTimer(endWait)
	defer timer.Stop()
	select {
	case <-p.Gone():
	case <-timer.C:
		p.Kill()
		<-p.Gone()
	}
}

func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, errLineTooLong
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case len(line) > 0:
			return line, nil // the last line had no end
		default:
			return nil, io.EOF
		}
	}
}

// Read reads raw output; use either Read or Lines.
func (p *Process) Read(b []byte) (int, error) { return p.out.Read(b) }

// Write sends b whole, never mixed with another call's.
func (p *Process) Write(b []byte) (int, error) {
	p.write.Lock()
	defer p.write.Unlock()
	return p.in.Write(b)
}

// CloseInput tells the program that nothing more comes.
func (p *Process) CloseInput() { p.in.Close() }

// Kill ends the program itself, not what it started; that is the work of the
// tree's owner.
func (p *Process) Kill() { p.cmd.Process.Kill() }

// Gone is closed when the program has ended and its stderr was read.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Err says how the program ended. Call it after Gone is closed.
func (p *Process) Err() error { return p.err }

// Tail returns the last 16 KiB of stderr, raw. It is for classification and
// must never be shown.
func (p *Process) Tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.tail)
}
