package view

import (
	"context"
	"errors"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
	"github.com/reevehq/reeve/ui/say"
)

// handEvery is how long after a keychain gave nothing it is asked again, while a
// mission waits for a secret: the person may have unlocked it.
const handEvery = 30 * time.Second

// credentials is what the service said of secrets last. Where it can't read the
// keychain, this program does, and hands over what missions wait for.
type credentials struct {
	list    wire.CredentialListResult
	known   bool
	stale   bool // the connection is new: ask again
	asking  bool
	problem string
	handing bool
	handed  time.Time // when the keychain was asked last
	handGen uint64    // of which service
}

// tendCredentials asks what the service has of secrets, and hands over what is
// wanted. It runs with every change, and does nothing most of the time.
func (d *desk) tendCredentials() {
	c := &d.credentials
	link, _ := d.st.Link()
	if link != model.Running {
		return
	}
	if c.stale && !c.asking {
		c.asking, c.stale = true, false
		d.credentialCall(wire.MethodCredentialList, nil, func(err error) {
			c.asking = false
			c.stale = errors.Is(err, errNotConnected)
			c.problem = sentence(err)
		})
	}
	d.handOver()
}

// credentialCall runs a method that answers with the list, and takes that.
func (d *desk) credentialCall(method string, params any, done func(error)) {
	task(d, func(ctx context.Context) (wire.CredentialListResult, error) {
		var r wire.CredentialListResult
		err := d.call(ctx, method, params, &r)
		return r, err
	}, func(r wire.CredentialListResult, err error) {
		if err == nil {
			d.tookCredentials(r)
		}
		done(err)
		d.changed()
	})
}

func (d *desk) tookCredentials(r wire.CredentialListResult) {
	d.credentials.list, d.credentials.known, d.credentials.problem = r, true, ""
}

// handOver reads from the keychain what missions wait for, and gives it to the
// service. What can't be read is left out, and tried again after a while.
func (d *desk) handOver() {
	c := &d.credentials
	generation := d.st.Service().Generation
	if len(c.list.Wanted) == 0 || d.o.Secret == nil || c.handing || c.handGen == generation && d.now().Sub(c.handed) < handEvery {
		return
	}
	c.handing, c.handed, c.handGen = true, d.now(), generation
	wanted := c.list.Wanted
	task(d, func(ctx context.Context) (wire.CredentialListResult, error) {
		p := wire.CredentialHandParams{Secrets: map[string]string{}}
		for _, name := range wanted {
			if secret, err := d.o.Secret(ctx, name); err == nil {
				p.Secrets[name] = secret
			}
		}
		var r wire.CredentialListResult
		if len(p.Secrets) == 0 {
			return r, errNothingRead
		}
		err := d.call(ctx, wire.MethodCredentialHand, p, &r)
		return r, err
	}, func(r wire.CredentialListResult, err error) {
		c.handing = false
		switch {
		case err == nil:
			d.tookCredentials(r)
		case !errors.Is(err, errNothingRead):
			c.problem = say.T("What a mission waits for was not handed over. %s", sentence(err))
		}
		d.changed()
	})
}

var errNothingRead = errors.New("the keychain gave nothing of what is wanted")
