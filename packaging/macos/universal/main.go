// Universal joins programs for several processors into one for macOS, as lipo
// does on a Mac.
//
//	go run ./packaging/macos/universal OUT PROGRAM...
package main

import (
	"bytes"
	"debug/macho"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// page is the alignment of each program in the file, as a power of two: a page
// of memory of Apple's own processors.
const page = 14

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: go run ./packaging/macos/universal OUT PROGRAM...")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "universal:", err)
		os.Exit(1)
	}
}

func write(out string, programs []string) error {
	var parts [][]byte
	for _, name := range programs {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		parts = append(parts, b)
	}
	b, err := join(parts)
	if err != nil {
		return err
	}
	return os.WriteFile(out, b, 0o755)
}

// join puts programs one after the other behind a directory of them. Two for
// one processor are an error.
func join(parts [][]byte) ([]byte, error) {
	type entry struct{ CPU, SubCPU, Offset, Size, Align uint32 }
	var directory []entry
	offset := uint32(8 + 20*len(parts))
	for _, p := range parts {
		f, err := macho.NewFile(bytes.NewReader(p))
		if err != nil {
			return nil, fmt.Errorf("no program for macOS: %w", err)
		}
		for _, e := range directory {
			if e.CPU == uint32(f.Cpu) {
				return nil, fmt.Errorf("two programs for %v", f.Cpu)
			}
		}
		offset = (offset + 1<<page - 1) &^ (1<<page - 1)
		directory = append(directory, entry{uint32(f.Cpu), f.SubCpu, offset, uint32(len(p)), page})
		offset += uint32(len(p))
	}
	if len(directory) == 0 {
		return nil, errors.New("no programs")
	}
	var out bytes.Buffer
	if err := binary.Write(&out, binary.BigEndian, [2]uint32{macho.MagicFat, uint32(len(parts))}); err != nil {
		return nil, err
	}
	if err := binary.Write(&out, binary.BigEndian, directory); err != nil {
		return nil, err
	}
	for i, p := range parts {
		out.Write(make([]byte, int(directory[i].Offset)-out.Len()))
		out.Write(p)
	}
	return out.Bytes(), nil
}
