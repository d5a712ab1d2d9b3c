package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
)

// keepCrash has the runtime write what it says of a crash to a private file, as a
// service in the background says it to nobody. What an earlier crash left there is
// kept once, under the name in note. end gives the file up.
func (s *Service) keepCrash() (note string, end func(), err error) {
	path := s.path("logs", "crash.log")
	if info, err := os.Lstat(path); err == nil && info.Size() > 0 {
		if err := os.Rename(path, path+".before"); err != nil {
			return "", nil, fmt.Errorf("keep what is known of a crash: %w", err)
		}
		note = fmt.Sprintf("An earlier service crashed on %s; what it said is in %s.before.", info.ModTime().Format("2 January 2006 at 15:04"), path)
	} else if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("make a place for what is said of a crash: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", nil, fmt.Errorf("make a place for what is said of a crash: %w", err)
	}
	defer f.Close() // the runtime has a descriptor of its own
	if err := debug.SetCrashOutput(f, debug.CrashOptions{}); err != nil {
		return "", nil, fmt.Errorf("have the runtime write to %s: %w", path, err)
	}
	return note, func() {
		_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
		_ = os.Remove(path) // it would say that there was a crash
	}, nil
}
