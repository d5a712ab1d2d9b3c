package assets

// Version is the version of every binary and package: the one place it is
// written.
const Version = "0.1.0"
