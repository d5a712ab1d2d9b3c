//go:build unix

package supervisor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reevehq/reeve/service/internal/checkout"
)

// TestChangeOfACheckoutIsWaitedFor: nobody else gets a checkout while files in
// it are still being changed, and what must be whole runs to its end.
func TestChangeOfACheckoutIsWaitedFor(t *testing.T) {
	h := newHouse(t)
	dir := h.checkout("a")
	ctx, cancel := context.WithCancel(within(t))
	returned := make(chan struct{})
	looked := make(chan error, 1)
	var whole error
	go func() {
		defer close(returned)
		out, err := changeWithGit(ctx, h.s, "m-1", func(git checkout.Git) (string, error) {
			if _, err := git(ctx, checkout.GitCommand{Dir: dir, Args: []string{"status"}, Limit: 100}); err != nil {
				t.Error(err)
			}
			cancel()
			select { // time for the fault to show, not for what is right
			case <-returned:
			case <-time.After(3 * followLimit):
			}
			_, cut := git(context.WithoutCancel(ctx), checkout.GitCommand{Dir: dir, Args: []string{"status"}, Limit: 100})
			looked <- cut
			_, whole = git(context.WithoutCancel(ctx), checkout.GitCommand{Dir: dir, Args: []string{"status"}, Limit: 100, Whole: true})
			return "changed", nil
		})
		if out != "changed" || err != nil {
			t.Errorf("%q, %v", out, err)
		}
	}()
	<-returned
	if cut := <-looked; !errors.Is(cut, context.Canceled) {
		t.Errorf("a look after the end: %v", cut)
	}
	if whole != nil {
		t.Errorf("what must be whole: %v", whole)
	}
}
