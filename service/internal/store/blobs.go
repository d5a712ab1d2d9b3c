package store

// Blobs is a directory of files named by their SHA-256.
type Blobs struct{ dir string }
