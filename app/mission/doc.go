// Package mission holds the rules of a mission and nothing else: the limits of
// its fields, its phases, when the next turn runs, what a turn's outcome and
// usage mean, and what the agent is told.
//
// Everything here is a pure function of its arguments. The clock, the disk and
// the network belong to the callers, so that every rule can be tested in a
// table, and so that the window, the command line and the service check the
// same things with the same words.
package mission
