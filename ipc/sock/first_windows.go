//go:build !testhooks

package sock

// first is nothing on Windows; see the other file.
type first struct{}

func claim(string) (first, error) { return first{}, nil }
func (first) occupy()             {}
func (first) Close() error        { return nil }
