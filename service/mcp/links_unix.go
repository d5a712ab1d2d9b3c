//go:build unix

package mcp

import (
	"io/fs"
	"syscall"
)

// oneName says whether a file has no second name, under which somebody else
// could change it.
func oneName(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 1
}
