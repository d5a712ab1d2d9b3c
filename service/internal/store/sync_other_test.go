//go:build !linux

package store_test

import "os"

func dataSync(f *os.File) error { return f.Sync() }
