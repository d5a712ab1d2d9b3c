//go:build unix

package guard_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
)

// claimAs is what a program runs to take a guard over. With locked it makes
// itself what a service is first, as far as a lock goes. It prints how that
// ends.
func claimAs(dir string, locked bool) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if locked {
		f, err := os.OpenFile(filepath.Join(dir, "../../reeve.db"), os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			defer f.Close()
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
	}
	c, err := guard.Connect(ctx, dir)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer c.Close()
	_, err = c.Claim(ctx, token, 99)
	fmt.Println("claim:", wire.CodeOf(err), err)
	return 0
}
