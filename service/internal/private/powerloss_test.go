//go:build unix

package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/reevehq/reeve/service/internal/powerloss"
)

// replaceVar makes the test binary replace files in that directory.
const replaceVar = "PRIVATE_TEST_REPLACE"

const replaced = 24 // times

// replaceSome replaces two files in turn in a directory that it makes, and says
// after each that it is durable.
func replaceSome(dir string) error {
	if err := EnsureDir(dir); err != nil {
		return err
	}
	for i := range replaced {
		if err := WriteFile(filepath.Join(dir, strconv.Itoa(i%2)), content(i)); err != nil {
			return err
		}
		fmt.Println(i)
	}
	return nil
}

// content is what a file holds after the i-th replacement.
func content(i int) []byte { return []byte(strings.Repeat(fmt.Sprintf("%d\n", i), 10+700*i)) }

// After a loss of power a file that was replaced is the old or the new one,
// whole, and the new one once that was said; so is the directory it is in.
func TestPowerLoss(t *testing.T) {
	root := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), replaceVar+"="+filepath.Join(root, "deep", "state"))
	powerloss.Test(t, cmd, root, func(root string, acked []string) error {
		dir := filepath.Join(root, "deep", "state")
		for file := range 2 {
			sure := -1 // the newest replacement of this file that was said to be durable
			for i := range acked {
				if i%2 == file {
					sure = i
				}
			}
			path := filepath.Join(dir, strconv.Itoa(file))
			b, err := ReadFile(path, 1<<20)
			if errors.Is(err, fs.ErrNotExist) && sure < 0 {
				continue
			}
			if err != nil {
				return err
			}
			first, _, _ := strings.Cut(string(b), "\n")
			i, err := strconv.Atoi(first)
			if err != nil || string(b) != string(content(i)) {
				return fmt.Errorf("file %d is torn: it begins with %q and has %d bytes", file, first, len(b))
			}
			if i < sure || i > len(acked) {
				return fmt.Errorf("file %d is that of replacement %d; %d was durable", file, i, sure)
			}
		}
		if len(acked) > 0 {
			// What came to an end half-way is in nobody's way.
			return errors.Join(EnsureDir(dir), WriteFile(filepath.Join(dir, "0"), nil), Check(filepath.Join(dir, "0")))
		}
		return nil
	})
}
