//go:build testhooks

package sock

import (
	"errors"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// first stands for what Windows knows of the first instance of a pipe and Wine
// does not, so that tests can run there: nobody else makes another first one,
// and it takes no connections.
type first struct {
	name  *uint16
	event windows.Handle // one of that name is there as long as the pipe
	held  windows.Handle // the connection that the instance took
}

func claim(pipe string) (*first, error) {
	f := &first{}
	var err error
	if f.name, err = windows.UTF16PtrFromString(pipe); err != nil {
		return nil, err
	}
	name, err := windows.UTF16PtrFromString(`Local\` + strings.ToLower(filepath.Base(pipe)))
	if err != nil {
		return nil, err
	}
	if f.event, err = windows.CreateEvent(nil, 0, 0, name); err != nil {
		if f.event != 0 {
			_ = windows.CloseHandle(f.event)
		}
		return nil, err
	}
	return f, nil
}

// occupy connects to a pipe that was just made. Windows refuses that.
func (f *first) occupy() {
	f.held, _ = windows.CreateFile(f.name, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING, 0, 0)
}

func (f *first) Close() error {
	var err error
	if f.held != 0 && f.held != windows.InvalidHandle {
		err = windows.CloseHandle(f.held)
	}
	return errors.Join(err, windows.CloseHandle(f.event))
}
