package checkout

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/reevehq/reeve/service/internal/store"
)

// lookLimit is how long a disk may take to say what a path is.
const lookLimit = 5 * time.Second

// place is what a path was on the disk when it was looked at: the path itself,
// then each folder above it.
type place []node

// node is one name of a path. A zero ID: there was nothing of that name.
type node struct {
	Name string `json:"name"`
	ID   fileID `json:"id,omitzero"`
}

// fileID tells files apart whatever their names are.
type fileID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// locate looks at a path. It may block for as long as a disk does.
func locate(path string) (p place) {
	for path = filepath.Clean(path); ; path = filepath.Dir(path) {
		id, err := identify(path)
		if err != nil {
			id = fileID{}
		}
		p = append(p, node{Name: path, ID: id})
		if path == filepath.Dir(path) {
			return p
		}
	}
}

// same says whether two places are one file, whatever the spelling: a bind
// mount, another case on a file system that folds it. Where one was not there,
// they are the same when their folders are and their names differ in nothing
// but case: it may be by now.
func (p place) same(q place) bool {
	if len(p) == 0 || len(q) == 0 {
		return false
	}
	a, b := p[0], q[0]
	switch {
	case a.Name == b.Name:
		return true
	case a.ID != fileID{} && b.ID != fileID{}:
		return a.ID == b.ID
	}
	return strings.EqualFold(filepath.Base(a.Name), filepath.Base(b.Name)) && p[1:].same(q[1:])
}

// inside says whether p is q or lies below it.
func (p place) inside(q place) bool {
	for ; len(p) > 0; p = p[1:] {
		if p.same(q) {
			return true
		}
	}
	return false
}

// look is a place that is being looked at.
type look struct {
	began time.Time
	done  chan struct{}
	found place // once done is closed
}

// looks are those that are under way, by path: what hangs is not asked again.
var looks = struct {
	sync.Mutex
	at map[string]*look
}{at: map[string]*look{}}

func begin(path string) *look {
	looks.Lock()
	defer looks.Unlock()
	if l := looks.at[path]; l != nil && time.Since(l.began) > lookLimit {
		return l
	}
	l := &look{began: time.Now(), done: make(chan struct{})}
	looks.at[path] = l
	go func() {
		defer close(l.done)
		l.found = locate(path)
		looks.Lock()
		defer looks.Unlock()
		if looks.at[path] == l {
			delete(looks.at, path)
		}
	}()
	return l
}

// wait returns nil when the disk gives no answer.
func (l *look) wait(ctx context.Context) place {
	limit := time.NewTimer(time.Until(l.began.Add(lookLimit)))
	defer limit.Stop()
	select {
	case <-l.done:
		return l.found
	case <-limit.C:
	case <-ctx.Done():
	}
	return nil
}

// Sight is a path and the claimed ones as they are on the disk, so that they
// can be compared inside a transaction, where nothing may wait for a disk.
type Sight struct {
	path   string
	at     place
	claims map[string]place // those whose disk answered
}

// Look looks at path and at what is claimed. It refuses when the disk of path
// gives no answer. A claim whose disk gives none counts as what it was when it
// was taken. The path need not be there yet.
func Look(ctx context.Context, db *store.DB, path string) (Sight, error) {
	var claimed []string
	if err := db.View(func(tx *store.Tx) error {
		return store.EachJSON(tx, bucket, func(_ string, c Claim) (bool, error) {
			claimed = append(claimed, c.Path)
			return true, nil
		})
	}); err != nil {
		return Sight{}, err
	}
	s := Sight{path: path, claims: map[string]place{}}
	own, others := begin(path), map[string]*look{}
	for _, c := range claimed {
		others[c] = begin(c)
	}
	if s.at = own.wait(ctx); s.at == nil {
		if err := ctx.Err(); err != nil {
			return Sight{}, err
		}
		return Sight{}, refuse("folder", fmt.Sprintf("The disk gave no answer within %d seconds about %s.", int(lookLimit.Seconds()), path), "Check that the disk it lies on can be reached.")
	}
	for c, l := range others {
		if at := l.wait(ctx); at != nil {
			s.claims[c] = at
		}
	}
	return s, ctx.Err()
}

// of is where a claimed path lies.
func (s Sight) of(c Claim) place {
	if at, ok := s.claims[c.Path]; ok {
		return at
	}
	if len(c.Place) > 0 {
		return c.Place
	}
	return named(c.Path)
}

// named is a place of which nothing but its names is known.
func named(path string) (p place) {
	for {
		p = append(p, node{Name: path})
		up := filepath.Dir(path)
		if up == path {
			return p
		}
		path = up
	}
}
