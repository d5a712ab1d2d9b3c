package service

import (
	"io"
	"os"
	"sync/atomic"
)

// says passes the log on to whoever started the service, until it is quiet.
type says struct {
	w     io.Writer
	quiet atomic.Bool
}

// Write implements io.Writer.
func (s *says) Write(b []byte) (int, error) {
	if s.quiet.Load() {
		return len(b), nil
	}
	return s.w.Write(b)
}

// served makes it quiet where w is a file, which nobody may read and nothing
// rotates: from here on the service's own log tells all.
func (s *says) served() {
	if f, ok := s.w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			s.quiet.Store(true)
		}
	}
}
