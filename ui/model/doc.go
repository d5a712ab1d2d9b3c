// Package model is what the windows and the command line show, as plain data:
// reducers over the service's snapshots and events, and the words, shapes and
// orders that follow from them. It draws nothing and asks nobody; the clock is
// an argument, so that every line a person reads can be tested without a
// display.
//
// Nothing here is safe for use by several goroutines at once: each program
// keeps its models on one.
package model
