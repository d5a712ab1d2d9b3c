package view

import "os"

// Replaced returns what tells whether another program stands at path by now.
func Replaced(path string) func() bool {
	began, err := os.Stat(path)
	if err == nil {
		// Windows finds out which file it is when it is first compared, and by
		// its name: later that would be another one.
		os.SameFile(began, began)
	}
	return func() bool {
		now, gone := os.Stat(path)
		return err == nil && gone == nil && !os.SameFile(began, now) && now.Mode().IsRegular() && now.Size() > 0
	}
}
