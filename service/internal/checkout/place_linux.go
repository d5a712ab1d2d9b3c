package checkout

import (
	"os"
	"strconv"
	"strings"
)

// mountsIn returns the mount points at dir and below it, bind mounts included.
func mountsIn(dir string) ([]string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return mountPoints(string(table), dir), nil
}

// mountPoints reads a mountinfo table, whose fifth field is the mount point
// with spaces, tabs, newlines and backslashes as octal numbers.
func mountPoints(table, dir string) (found []string) {
	for line := range strings.Lines(table) {
		fields := strings.Split(line, " ")
		if len(fields) < 5 {
			continue
		}
		if p := octal(fields[4]); within(p, dir) {
			found = append(found, p)
		}
	}
	return found
}

func octal(s string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 || len(s) < i+4 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
			b.WriteByte(byte(n))
			s = s[i+4:]
		} else {
			b.WriteByte('\\')
			s = s[i+1:]
		}
	}
}
