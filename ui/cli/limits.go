package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/reevehq/reeve/app/mission"
)

// memorySize is a flag for an amount of memory in MiB, written like 512M or 4G.
type memorySize int64

// String is what the flag would be given to say the same.
func (m *memorySize) String() string {
	switch n := int64(*m); {
	case n == 0:
		return ""
	case n%1024 == 0:
		return fmt.Sprintf("%dG", n/1024)
	default:
		return fmt.Sprintf("%dM", n)
	}
}

// Type names the value in the usage.
func (m *memorySize) Type() string { return "size" }

// Set reads a whole number with its unit.
func (m *memorySize) Set(s string) error {
	digits := strings.TrimRight(s, "BIMGTbimgt")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return err
	}
	factor := int64(0)
	switch strings.ToUpper(s[len(digits):]) {
	case "M", "MB", "MIB":
		factor = 1
	case "G", "GB", "GIB":
		factor = 1 << 10
	case "T", "TB", "TIB":
		factor = 1 << 20
	}
	// Nothing is not none: on the wire it would stand for the default.
	if factor == 0 || n <= 0 || n > mission.MaxMemoryMB/factor || n*factor < mission.MinMemoryMB {
		return errors.New("out of range")
	}
	*m = memorySize(n * factor)
	return nil
}
