//go:build !testhooks

// Package fault marks the places where a crash would hurt most: between a
// journal write and what follows from it, at each step of a guard's handshake,
// around every answer. In the programs that people run a mark does nothing. In
// the ones that tests build (tag testhooks) a process that comes to an armed
// mark stands still there, until the crash tests have killed it, or another
// process of the same mission, and have let go what is left.
package fault

// Point marks a place. Names are unique, "part.what-just-happened".
func Point(string) {}
