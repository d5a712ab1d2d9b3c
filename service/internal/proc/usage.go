package proc

import "time"

// Usage is what the members of a tree use, measured at one moment. This
// process itself is not in it.
type Usage struct {
	// CPU is the processor time of all threads, user and system, since the
	// tree was made. It never goes back.
	//
	// Exact with a control group or a job: members that have ended are in it.
	// By the subreaper way the time of a member that has ended is in it once
	// its parent has waited for it, and missing if the parent never does. On
	// macOS what a member used between the last call and its end is missing.
	CPU time.Duration
	// Memory is what would be free again if all members ended, in bytes:
	// private and shared memory, swap left out, and not the pages of files,
	// which the system can drop. With a control group that has the memory
	// controller the kernel counts it, its own for the group included.
	// Otherwise it is a sum over the members, which counts memory that several
	// of them share once for each.
	Memory int64
	// Peak is the highest Memory that a call saw since the tree was made, so
	// call again and again; on Windows it is the job's own.
	Peak int64
	// Processes is how many members live.
	Processes int
	// OOMKills is how many members the kernel has ended because the limit of
	// LimitMemory was reached. Only a control group counts them.
	OOMKills int
}
