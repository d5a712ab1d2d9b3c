package mcp

import "io/fs"

// oneName is not asked here: a hard link takes the right to change the file.
func oneName(fs.FileInfo) bool { return true }
