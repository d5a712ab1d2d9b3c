package server

import (
	"cmp"
	"slices"
)

const (
	// maxJudging is how many connections are judged at once.
	maxJudging = 8
	// maxWaiting is how many more may wait for that.
	maxWaiting = 512
)

// queue holds the connections of which nobody knows yet whose they are. A process
// that has many there delays its own, and nobody else's.
type queue struct {
	of      map[int][]*conn // by the pid at the other end, oldest first
	turns   []int           // the pids in of; whose turn was least lately is first
	judging map[int]int     // how many are out of the queue and not judged yet
	waiting int
}

func newQueue() queue { return queue{of: map[int][]*conn{}, judging: map[int]int{}} }

func (q *queue) push(c *conn) {
	pid := c.peer.PID
	if len(q.of[pid]) == 0 {
		q.turns = append(q.turns, pid)
	}
	q.of[pid] = append(q.of[pid], c)
	q.waiting++
}

// next takes out the connection that is judged next, or returns nil: the oldest
// of the process of which the fewest are being judged.
func (q *queue) next() *conn {
	busy := 0
	for _, n := range q.judging {
		busy += n
	}
	if q.waiting == 0 || busy >= maxJudging {
		return nil
	}
	pid := slices.MinFunc(q.turns, func(a, b int) int { return cmp.Compare(q.judging[a], q.judging[b]) })
	c := q.of[pid][0]
	q.of[pid] = q.of[pid][1:]
	q.left(pid)
	if q.of[pid] != nil { // now it is everyone else's turn
		q.turns = append(slices.DeleteFunc(q.turns, func(p int) bool { return p == pid }), pid)
	}
	q.judging[pid]++
	return c
}

// judged notes that one from next was.
func (q *queue) judged(c *conn) {
	pid := c.peer.PID
	if q.judging[pid]--; q.judging[pid] == 0 {
		delete(q.judging, pid)
	}
}

// crowd takes out the newest connection of the process that has the most in the
// queue, or returns nil if each has but one.
func (q *queue) crowd() *conn {
	most := 0
	for pid, list := range q.of {
		if len(list) > max(1, len(q.of[most])) {
			most = pid
		}
	}
	list := q.of[most]
	if len(list) < 2 {
		return nil
	}
	q.of[most] = list[:len(list)-1]
	q.left(most)
	return list[len(list)-1]
}

// left notes that a process has one less in the queue.
func (q *queue) left(pid int) {
	if q.waiting--; len(q.of[pid]) == 0 {
		delete(q.of, pid)
		q.turns = slices.DeleteFunc(q.turns, func(p int) bool { return p == pid })
	}
}
