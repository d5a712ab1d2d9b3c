//go:build unix

package guard_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/guard"
)

// claimFromWorker is what a worker would run to take its guard over. It prints
// the code of the refusal.
func claimFromWorker(dir string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := guard.Connect(ctx, dir)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer c.Close()
	_, err = c.Claim(ctx, token, 99)
	fmt.Println("claim:", wire.CodeOf(err), os.Getppid() == 0)
	return 0
}
