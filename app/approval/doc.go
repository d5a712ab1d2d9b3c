// Package approval holds the rules of an approval and nothing else: what a
// request consists of and its digest, how it is shown so that nothing in it
// hides, which programs a command would run, and what needs no approval.
//
// Everything here is a pure function. Storing, asking and answering belong to
// the service, drawing to the clients.
package approval
