//go:build !testhooks

// Package fault marks the places where a crash would hurt most: between a
// journal write and what follows from it, at each step of a guard's handshake,
// around every answer. In the programs that people run a mark does nothing. In
// the ones that tests build (tag testhooks) a named mark kills its process, so
// that the crash tests can die exactly there and look at what is left.
package fault

// Point marks a place. Names are unique, "part.what-just-happened".
func Point(string) {}
